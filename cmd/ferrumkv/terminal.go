package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is a line that is rewritten as work goes on. It shows nothing unless
// its output is a terminal: what is piped or logged stays free of it.
type progress struct {
	out   io.Writer // nil: no terminal
	width int       // characters on the line
}

func newProgress(out io.Writer) *progress {
	if s, ok := out.(*screen); ok { // show escapes what is not its own
		out = s.to
	}
	if !isTerminal(out) {
		return &progress{}
	}
	return &progress{out: out}
}

// show replaces the line.
func (p *progress) show(format string, a ...any) {
	if p.out == nil {
		return
	}
	var shown strings.Builder
	fmt.Fprintf(&screen{to: &shown}, format, a...)
	text := shown.String()
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
	p.width = len(text)
}

// clear removes the line, before something else is written.
func (p *progress) clear() {
	if p.out == nil || p.width == 0 {
		return
	}
	fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
	p.width = 0
}

// progressBar shows how much of some work is done.
type progressBar struct {
	line        *progress
	done, total int
	percent     int // that is shown
}

// step adds work that was done. The line is written only where it changes.
func (b *progressBar) step(n int) {
	b.done += n
	if percent := 100 * b.done / b.total; percent != b.percent {
		b.percent = percent
		b.line.show("%s", barOf(percent))
	}
}

// barOf is a bar that is full at 100 percent, which it says too.
func barOf(percent int) string {
	const width = 30
	full := width * percent / 100
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", width-full), percent)
}

// isTerminal reports whether w is a character device other than the null device,
// which is one too.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
