// A mail server on go-smtp with its default settings. It refuses the sender and the recipient
// whose local part is "refused", and writes a line of JSON to standard output for each thing that
// it is asked to do: the first has its address, the others the envelopes and contents. With orders as
// its argument it is a relay instead (relay.go).
package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"
)

type event struct {
	Event    string   `json:"event"`
	Address  string   `json:"address,omitempty"`
	RudePort int      `json:"rude_port,omitempty"`
	From     string   `json:"from,omitempty"`
	To       []string `json:"to,omitempty"`
	Content  string   `json:"content,omitempty"`
}

var output sync.Mutex

func tell(e event) {
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		log.Fatal(err)
	}
}

var errRefused = &smtp.SMTPError{
	Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "Refused",
}

func judge(address string) error {
	if strings.HasPrefix(address, "refused@") {
		return errRefused
	}
	return nil
}

type backend struct{}

func (backend) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{}, nil }

type session struct {
	from string
	to   []string
}

func (s *session) Reset()        { *s = session{} }
func (s *session) Logout() error { return nil }

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	tell(event{Event: "mail", From: from})
	s.from = from
	return judge(from)
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	tell(event{Event: "rcpt", To: []string{to}})
	if err := judge(to); err != nil {
		return err
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	tell(event{Event: "message", From: s.from, To: s.to, Content: string(content)})
	return nil
}

// wire writes down each piece that a client or this server sends.
type wire struct{}

func (wire) Write(piece []byte) (int, error) {
	tell(event{Event: "wire", Content: string(piece)})
	return len(piece), nil
}

func main() {
	if len(os.Args) > 1 {
		serveRelay(os.Args[1])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := smtp.NewServer(backend{})
	server.Domain = "go.test"
	server.Debug = wire{}
	tell(event{Event: "listening", Address: listener.Addr().String()})
	log.Fatal(server.Serve(listener))
}
