package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"time"
)

// A template is a program of a stranger's: it may call itself without end or ask for all memory, and no library of Jinja bounds that. So a
// process of its own renders it, of this program with the argument Apart, which ends where it takes too much.
const (
	// Apart is the argument that makes the program render what Serve reads.
	Apart = "render-chat-template"

	maxText = 64 << 20
	// overMemory is the exit code of a process that takes more memory than it may.
	overMemory = 3
)

// limits are what a process may take.
type limits struct {
	time   time.Duration
	memory uint64 // bytes
}

// most is more than any model's template takes.
var most = limits{10 * time.Second, 512 << 20}

// order is what the process is asked for, and outcome what it answers.
type order struct {
	Template Template
	Messages []Message
	Answer   bool
	Memory   uint64 // bytes that it may take
}

type outcome struct{ Text, Refused string }

// Render is the text of a conversation; with answer it ends where the model's next answer begins. It fails with ErrTemplate where the
// template refuses the conversation, cannot be read, or takes more time or memory than any model's does.
func (t *Template) Render(ctx context.Context, messages []Message, answer bool) (string, error) {
	return t.renderWithin(ctx, messages, answer, most)
}

func (t *Template) renderWithin(ctx context.Context, messages []Message, answer bool, most limits) (string, error) {
	in, err := json.Marshal(order{*t, messages, answer, most.memory})
	if err != nil {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, most.time)
	defer cancel()
	cmd := exec.CommandContext(limited, program, Apart)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(in), time.Second
	text := bounded{most: maxText}
	cmd.Stdout = &text
	err = cmd.Run()
	var out outcome
	switch ended, _ := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", ErrTemplate{fmt.Sprintf("takes longer than %v", most.time)}
	case ended != nil && ended.ExitCode() == overMemory:
		return "", ErrTemplate{fmt.Sprintf("takes more than %d MiB of memory", most.memory>>20)}
	case ended != nil:
		return "", ErrTemplate{fmt.Sprintf("cannot be rendered: the process that does it ended with %v", ended)}
	case err != nil:
		return "", fmt.Errorf("the chat template cannot be rendered: %w", err)
	}
	if err := json.Unmarshal(text.Bytes(), &out); err != nil {
		return "", fmt.Errorf("the chat template cannot be rendered: %w", err)
	}
	if out.Refused != "" {
		return "", ErrTemplate{out.Refused}
	}
	return out.Text, nil
}

// bounded is a buffer that takes no more than it may.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.most-b.Len() {
		return 0, fmt.Errorf("a text of more than %d MiB", b.most>>20)
	}
	return b.Buffer.Write(p)
}

// Serve renders the one conversation that Render sends, in a process that ends when that takes too much memory. One that takes too long is
// ended by Render, and ends by itself where the process that runs Render is gone.
func Serve(in io.Reader, out io.Writer) error {
	time.AfterFunc(most.time+time.Second, func() { os.Exit(1) })
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	go watch(o.Memory)
	text, err := o.Template.render(o.Messages, o.Answer)
	answer := outcome{Text: text}
	if err != nil {
		answer.Refused = err.Error()
	}
	return json.NewEncoder(out).Encode(answer)
}

// watch ends the process when it has more memory than it may. Memory grows by no more than a copy of what there is between two looks.
func watch(most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(2 * time.Millisecond) {
		if metrics.Read(sample); sample[0].Value.Uint64()-sample[1].Value.Uint64() > most {
			os.Exit(overMemory)
		}
	}
}
