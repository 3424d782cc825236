package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"
)

// orders say what a relay sends on where, and what it refuses: step, sender, recipient and reply.
type orders struct {
	NextPort int         `json:"next_port"`
	SizeMax  int64       `json:"size_max"`
	Refusals [][4]string `json:"refusals"`
	Rude     string      `json:"rude"`
	Deferred string      `json:"deferred"`
	Deferral string      `json:"deferral"`
}

// refusal makes an error of a reply such as "550 5.1.1 no".
func refusal(reply string) error {
	words := strings.SplitN(reply, " ", 3)
	code, _ := strconv.Atoi(words[0])
	var status smtp.EnhancedCode
	for n, digits := range strings.Split(words[1], ".") {
		status[n], _ = strconv.Atoi(digits)
	}
	return &smtp.SMTPError{Code: code, EnhancedCode: status, Message: words[2]}
}

// relay takes a message and passes it on before it answers.
type relay struct {
	orders
	mutex  sync.Mutex
	putOff bool
}

func (r *relay) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &passage{relay: r}, nil
}

// refused is what was ordered for a step.
func (r *relay) refused(step, from, to string) error {
	for _, order := range r.Refusals {
		if order[0] == step && (to == "" || order[2] == to) && (from == "" || order[1] == from) {
			return refusal(order[3])
		}
	}
	return nil
}

// recipient is one with what is to be passed on about it.
type recipient struct {
	to      string
	options *smtp.RcptOptions
}

// passage is one client's session.
type passage struct {
	relay   *relay
	from    string
	options *smtp.MailOptions
	to      []recipient
}

func (p *passage) Reset()        { *p = passage{relay: p.relay} }
func (p *passage) Logout() error { return nil }

func (p *passage) Mail(from string, options *smtp.MailOptions) error {
	p.from, p.options = from, options
	return p.relay.refused("mail", from, "")
}

func (p *passage) Rcpt(to string, options *smtp.RcptOptions) error {
	if err := p.relay.refused("rcpt", "", to); err != nil {
		return err
	}
	if to == p.relay.Deferred {
		p.relay.mutex.Lock()
		defer p.relay.mutex.Unlock()
		if !p.relay.putOff {
			p.relay.putOff = true
			return refusal(p.relay.Deferral)
		}
	}
	p.to = append(p.to, recipient{to, options})
	return nil
}

// Data refuses here, too, what should be refused in reply to DATA: go-smtp asks nobody before.
func (p *passage) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for _, step := range []string{"data", "dot"} {
		if err := p.relay.refused(step, p.from, ""); err != nil {
			return err
		}
	}
	for waiting := p.to; len(waiting) > 0; {
		if waiting, err = p.pass(waiting, content); err != nil {
			return err
		}
	}
	return nil
}

// pass sends a message on to as many recipients as the next server takes, and returns the others.
func (p *passage) pass(to []recipient, content []byte) ([]recipient, error) {
	client, err := smtp.Dial(net.JoinHostPort("127.0.0.1", strconv.Itoa(p.relay.NextPort)))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Hello("go.test"); err != nil {
		return nil, err
	}
	if err := client.Mail(p.from, p.options); err != nil {
		return nil, err
	}
	var left []recipient
	for _, one := range to {
		var refused *smtp.SMTPError
		err := client.Rcpt(one.to, one.options)
		if errors.As(err, &refused) && refused.Code < 500 {
			left = append(left, one)
		} else if err != nil {
			return nil, err
		}
	}
	writer, err := client.Data()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(writer, bytes.NewReader(content)); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return left, client.Quit()
}

// rude refuses everybody.
type rude struct{ reply string }

func (r rude) NewSession(*smtp.Conn) (smtp.Session, error) { return nil, refusal(r.reply) }

// serveRelay works until it is killed.
func serveRelay(text string) {
	var orders orders
	if err := json.Unmarshal([]byte(text), &orders); err != nil {
		log.Fatal(err)
	}
	listen := func(backend smtp.Backend) net.Addr {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		server := smtp.NewServer(backend)
		server.Domain = "go.test"
		server.MaxMessageBytes = orders.SizeMax
		server.MaxLineLength = 0
		server.EnableSMTPUTF8 = true
		server.EnableDSN = true
		go func() { log.Fatal(server.Serve(listener)) }()
		return listener.Addr()
	}
	rudePort := listen(rude{orders.Rude}).(*net.TCPAddr).Port
	address := listen(&relay{orders: orders}).String()
	tell(event{Event: "listening", Address: address, RudePort: rudePort})
	select {}
}
