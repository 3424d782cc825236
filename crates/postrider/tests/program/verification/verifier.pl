# What Mail::DKIM says of each message. In: [zone, messages] as JSON. Out: its words, as JSON.
use strict;
use warnings;
use JSON::PP;
use Mail::DKIM::Verifier;
use Net::DNS;

my ($zone, $messages) = @{ decode_json(join '', <STDIN>) };
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
my @said;
for my $message (@$messages) {
    my $verifier = Mail::DKIM::Verifier->new;
    utf8::downgrade($message);
    $verifier->PRINT($message);
    $verifier->CLOSE;
    push @said, $verifier->result;
}
print encode_json(\@said);
