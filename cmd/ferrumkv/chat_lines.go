package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// line is what the user says, or why nothing comes any more; io.EOF at the end of the input.
type line struct {
	text string
	err  error
}

// talk answers line by line, until the input ends or a signal ends the program.
func (d *dialogue) talk(cmd *cobra.Command) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if ended := cmd.Context(); ended.Err() != nil { // by a signal that came before this, which nothing else looks at
		return context.Cause(ended)
	}
	in := cmd.InOrStdin()
	file, _ := in.(*os.File)
	lines, ask := make(chan line), func() {}
	if file != nil && isTerminal(file) {
		ask = func() { fmt.Fprint(d.notes, "> ") }
		d.note(chatCommands)
	}
	go read(in, lines)
	for {
		ask()
		var said line
		select {
		case said = <-lines:
		case s := <-signals:
			fmt.Fprintln(d.notes)
			return endedBy(s)
		}
		switch {
		case errors.Is(said.err, io.EOF):
			return nil
		case said.err != nil:
			return fmt.Errorf("standard input: %w", said.err)
		case strings.TrimSpace(said.text) == "":
			continue
		}
		switch done, err := d.command(said.text); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case done:
			continue
		}
		if err := d.stoppable(cmd, signals, said.text); err != nil {
			return err
		}
	}
}

// stoppable answers until a signal stops that. A second one, or SIGTERM, ends the program.
func (d *dialogue) stoppable(cmd *cobra.Command, signals <-chan os.Signal, said string) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(cmd.Context())) // which the first signal ended
	defer stop()
	done, ended := make(chan struct{}), make(chan error)
	go func() {
		var why error
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				if stop(); n > 0 || s == syscall.SIGTERM {
					why = endedBy(s)
				}
			case <-done:
				ended <- why
				return
			}
		}
	}()
	err := d.turn(ctx, said)
	close(done)
	why := <-ended
	if err != nil && !errors.Is(err, context.Canceled) { // of ctx, before the answer began
		return err
	}
	return why
}

// endedBy is the error of a program that a signal ended.
func endedBy(s os.Signal) error {
	if s == syscall.SIGTERM {
		return errTerminated
	}
	return context.Canceled
}

// read sends what is said, line by line. A line that ends in a backslash goes on.
func read(in io.Reader, lines chan<- line) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, longestPrompt)
	said := ""
	for scanner.Scan() {
		text, more := strings.CutSuffix(scanner.Text(), `\`)
		said += text
		if more && len(said) < longestPrompt {
			said += "\n"
			continue
		}
		lines <- line{text: said}
		said = ""
	}
	err := scanner.Err()
	if err == nil {
		if err = io.EOF; said != "" { // its last line was to go on
			lines <- line{text: strings.TrimSuffix(said, "\n")}
		}
	} else if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("a line is longer than %s", byteSize(longestPrompt))
	}
	lines <- line{err: err}
}
