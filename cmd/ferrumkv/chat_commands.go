package main

import (
	"io"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// chatCommands says what lines are for the program.
const chatCommands = `/clear begins a new conversation, /exit ends this one, /help says this; a line that ends in \ goes on in the next one`

// command does what a line asks of the program; done: it was no message. io.EOF ends the conversation.
func (d *dialogue) command(line string) (done bool, err error) {
	switch strings.TrimSpace(line) {
	case "/exit", "/bye", "/quit":
		return true, io.EOF
	case "/help":
		d.note(chatCommands)
	case "/clear":
		return true, d.clear()
	default:
		return false, nil
	}
	return true, nil
}

// clear begins a new conversation with the same system prompt.
func (d *dialogue) clear() (err error) {
	if d.held != nil {
		err = d.held.Seq.Release()
	}
	system := 0
	if len(d.messages) > 0 && d.messages[0].Role == "system" {
		system = 1
	}
	d.held, d.messages, d.past, d.template.Now = nil, d.messages[:system:system], chat.Past{}, time.Now()
	d.note("a new conversation")
	return err
}
