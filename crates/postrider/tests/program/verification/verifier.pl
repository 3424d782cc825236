# What Mail::DKIM says of each message. Argument: the zone, as JSON. In: messages, each behind its length and a
# line end. Out: its words, one per line.
use strict;
use warnings;
use JSON::PP;
use Mail::DKIM::Verifier;
use Net::DNS;

my $zone = decode_json($ARGV[0]);
binmode STDIN;
{
    no warnings 'redefine';
    *Mail::DKIM::DNS::query = sub {
        my ($name) = @_;
        my $record = $zone->{$name};
        return () unless defined $record;
        return Net::DNS::RR->new(
            name => $name,
            type => 'TXT',
            txtdata => [ $record =~ /(.{1,255})/g ],
        );
    };
}
while (defined(my $length = <STDIN>)) {
    my $message;
    my $got = read STDIN, $message, $length;
    die "a message of $length octets ends early" unless $got == $length;
    my $verifier = Mail::DKIM::Verifier->new;
    $verifier->PRINT($message);
    $verifier->CLOSE;
    print $verifier->result, "\n";
}
