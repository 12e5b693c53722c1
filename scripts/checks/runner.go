package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// runner runs checks, some at a time, and keeps what each prints.
type runner struct {
	began   time.Time
	lanes   int
	logs    string // folder
	out     io.Writer
	known   *inputs
	records recordFile
	mu      sync.Mutex // of out, the record files, and results
	results []result
}

// result is how a check ended.
type result struct {
	check
	err  error
	wall time.Duration
	cpu  time.Duration // of its processes, their children included
	note string        // why it did not run, or not whole
}

func (r *runner) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// skipped is the exit status of a check that cannot run on this machine, like that of automake's tests:
// it has not failed, and it has no record.
const skipped = 77

// versioned reports whether git knows what is here: without it there are no records.
func versioned() bool {
	_, err := os.Stat(".git")
	return err == nil
}

// run runs one check, with what it prints in a file, and on the terminal too where tee is set.
// That it passed is recorded where a record serves, and in night if that is named.
func (r *runner) run(ctx context.Context, c check, night recordFile, tee bool) result {
	res := result{check: c}
	kept, before := (c.when == onChange || night != "") && versioned(), ""
	if kept {
		if before, res.err = r.known.hash(c); res.err != nil {
			return res
		}
	}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		res.err = err
		return res
	}
	log, err := os.Create(r.log(c))
	if err != nil {
		res.err = err
		return res
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	if strings.HasPrefix(c.command[0], "scripts/") {
		cmd.Path = "." + string(filepath.Separator) + filepath.FromSlash(c.command[0])
	}
	cmd.Env = append(append(environment(), flags, c.workspace()), c.env...)
	cmd.Stdout = io.Writer(log)
	if tee {
		cmd.Stdout = io.MultiWriter(log, r.out)
	}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = 10 * time.Second
	ownGroup(cmd)
	started := time.Now()
	res.err = cmd.Run()
	res.wall = time.Since(started)
	if s := cmd.ProcessState; s != nil {
		res.cpu = s.UserTime() + s.SystemTime()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(res.err, &exit) && exit.ExitCode() == skipped:
		res.err, res.note = nil, "skipped"
	case res.err == nil && kept:
		res.err = r.remember(res, before, night)
	}
	return res
}

// environment is that of the process, but for what make says to a make that it calls: a check prints
// the same, however it was started. Go collects garbage later than by default, which costs tests memory and saves a
// quarter of their time.
func environment() []string {
	return append([]string{"GOGC=400"}, slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})...)
}

// remember records that a check passed, of inputs that are what they were when it began.
func (r *runner) remember(res result, before string, night recordFile) error {
	after, err := r.known.hash(res.check)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("passed, but its inputs changed meanwhile: run it again")
	}
	rec := record{name: res.name, hash: before, when: time.Now(), took: res.wall}
	for _, t := range res.tools {
		if v := r.known.toolVersion(t); v != "" {
			rec.tools = append(rec.tools, t+"="+v)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if res.when == onChange {
		err = r.records.write(rec)
	}
	if night != "" && err == nil {
		err = night.write(rec)
	}
	return err
}

func (r *runner) log(c check) string { return filepath.Join(r.logs, c.name+".txt") }

// finished tells of a check that ended, with the end of what it printed if it failed.
func (r *runner) finished(res result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
	if res.err == nil {
		fmt.Fprintf(r.out, "%s %-5s %s, %s\n", r.clock(), cmp.Or(res.note, "ok"), res.name, short(res.wall))
		return
	}
	fmt.Fprintf(r.out, "%s FAIL  %s, %s: %v\n", r.clock(), res.name, short(res.wall), res.err)
	content, _ := os.ReadFile(r.log(res.check))
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) > 200 {
		fmt.Fprintf(r.out, "… %s has all of it\n", r.log(res.check))
		lines = lines[len(lines)-200:]
	}
	fmt.Fprintln(r.out, strings.Join(lines, "\n"))
}

// clock is the time since the beginning.
func (r *runner) clock() string {
	d := time.Since(r.began).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
