// Sends one message by Go's own net/smtp: go-submission ADDRESS starttls|implicit USER PASSWORD.
package main

import (
	"crypto/tls"
	"fmt"
	"net/smtp"
	"os"
)

func main() {
	if err := send(os.Args[1], os.Args[2] == "implicit", os.Args[3], os.Args[4]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func send(address string, implicit bool, user, password string) error {
	// The certificate is a test's own.
	config := &tls.Config{InsecureSkipVerify: true}
	client, err := dial(address, implicit, config)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Auth(smtp.PlainAuth("", user, password, "127.0.0.1")); err != nil {
		return err
	}
	if err := client.Mail("me@source.test"); err != nil {
		return err
	}
	if err := client.Rcpt("you@far.test"); err != nil {
		return err
	}
	content, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := content.Write([]byte("Subject: x\r\n\r\nbody\r\n")); err != nil {
		return err
	}
	if err := content.Close(); err != nil {
		return err
	}
	return client.Quit()
}

func dial(address string, implicit bool, config *tls.Config) (*smtp.Client, error) {
	if implicit {
		connection, err := tls.Dial("tcp", address, config)
		if err != nil {
			return nil, err
		}
		return smtp.NewClient(connection, "127.0.0.1")
	}
	client, err := smtp.Dial(address)
	if err != nil {
		return nil, err
	}
	return client, client.StartTLS(config)
}
