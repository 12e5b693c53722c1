package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// longestPrompt is how many bytes of a file or of standard input are read as a prompt.
const longestPrompt = 16 << 20

// fromStdin is what takes the place of a text or of the name of a file: standard input.
const fromStdin = "-"

// promptFlags are the texts to continue.
type promptFlags struct{ prompts, files []string }

func (f *promptFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.prompts, "prompt", "p", nil, "`TEXT` to continue, - for standard input; repeat it for a batch (default: what is piped in, else "+defaultPrompt+")")
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil, "`FILE` with a text to continue, without the end of its last line; repeat it for a batch")
}

// read reads the texts: of --prompt, then of --file; or else what is piped in, if that is not empty, and defaultPrompt otherwise.
func (f promptFlags) read(cmd *cobra.Command) ([]string, error) {
	asked := slices.DeleteFunc(slices.Concat(f.prompts, f.files), func(s string) bool { return s != fromStdin })
	if len(asked) > 1 {
		return nil, errors.New("standard input (-) can be one prompt only")
	}
	prompts := slices.Clone(f.prompts)
	if at := slices.Index(prompts, fromStdin); at >= 0 {
		text, err := pipedText(cmd, "--prompt -")
		if err != nil {
			return nil, err
		}
		prompts[at] = text
	}
	for _, name := range f.files {
		text, err := fileText(cmd, name)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, text)
	}
	if len(prompts) > 0 {
		return prompts, nil
	}
	if isPiped(cmd.InOrStdin()) {
		text, err := readPrompt(cmd, "standard input", cmd.InOrStdin(), patience)
		if errors.Is(err, errSilent) {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: nothing came from standard input for %v, and it is not waited for; --prompt - waits\n", patience)
		} else if err != nil || text != "" {
			return []string{withoutLastEnd(text)}, err
		}
	}
	return []string{defaultPrompt}, nil
}

// fileText is the text of a file, or of standard input.
func fileText(cmd *cobra.Command, name string) (string, error) {
	if name == fromStdin {
		return pipedText(cmd, "--file -")
	}
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("--file: %w", err)
	}
	defer file.Close()
	text, err := readPrompt(cmd, "--file "+name, file, 0)
	if err == nil && text == "" {
		err = fmt.Errorf("--file %s: is empty", name)
	}
	return withoutLastEnd(text), err
}

// pipedText is what standard input has for a flag that names it.
func pipedText(cmd *cobra.Command, flag string) (string, error) {
	text, err := readPrompt(cmd, flag, cmd.InOrStdin(), 0)
	if err == nil && text == "" {
		err = fmt.Errorf("%s: standard input is empty; pipe a text into it, or write the text after --prompt", flag)
	}
	return withoutLastEnd(text), err
}

// patience is how long standard input that no flag names is waited for: a service or a build may run the program with a pipe that nobody
// writes to. errSilent is what comes of it.
const patience = 5 * time.Second

var errSilent = errors.New("nothing was written")

// readPrompt reads a text to its end, or until the command is interrupted, or, unless patience is 0, until nothing has come for as long.
func readPrompt(cmd *cobra.Command, what string, in io.Reader, patience time.Duration) (string, error) {
	type read struct {
		text []byte
		err  error
	}
	begun, done := make(chan struct{}), make(chan read, 1)
	go func() {
		first := make([]byte, 1)
		n, err := io.ReadFull(in, first)
		close(begun)
		var rest []byte
		if err == nil {
			rest, err = io.ReadAll(io.LimitReader(in, longestPrompt))
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
		done <- read{append(first[:n], rest...), err}
	}()
	var silent <-chan time.Time
	if patience > 0 {
		silent = time.After(patience)
	}
	for {
		select {
		case r := <-done:
			switch {
			case r.err != nil:
				return "", fmt.Errorf("%s: %w", what, r.err)
			case len(r.text) > longestPrompt:
				return "", fmt.Errorf("%s: is longer than %s, the most for a prompt", what, byteSize(longestPrompt))
			}
			return string(r.text), nil
		case <-begun:
			begun, silent = nil, nil
		case <-silent:
			return "", errSilent
		case <-cmd.Context().Done():
			return "", context.Cause(cmd.Context())
		}
	}
}

// withoutLastEnd is a text without the end of its last line, which echo and editors add.
func withoutLastEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// isPiped reports whether somebody has put a text into standard input: it is a pipe, a socket or a file, and neither a
// terminal nor the null device.
func isPiped(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat() // an error where it is closed
	return err == nil && (info.Mode().IsRegular() || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0)
}
