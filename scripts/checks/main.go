// Checks runs what guards this project, and remembers what passed:
//
//	go run ./scripts/checks list                   all checks, and of which inputs they last passed
//	go run ./scripts/checks run NAME...            these, on the terminal; what passes is recorded
//	go run ./scripts/checks ci [-elapsed 90s]      a change: all that runs each time, then what has no record
//	go run ./scripts/checks passed [-minutes 60]   what has no record, largest first
//	go run ./scripts/checks nightly [-only REGEXP] [-minutes 60] [-fresh]
//	                                               everything, at full size, whatever the records say
//
// A check is one of three kinds. Some run for every change. Some, which take long, run where
// their inputs changed since they last passed: the record of that is .ci/passed, which is
// committed, and written only here, when a command has passed on files that did not change
// meanwhile. The rest runs at night; nightly goes on where it was stopped, if the sources are
// the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "checks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if len(args) == 0 {
		return errors.New("say list, run, ci, passed or nightly")
	}
	set := flag.NewFlagSet("checks "+args[0], flag.ExitOnError)
	elapsed := set.Duration("elapsed", 0, "what the change's check took until now: tools that were installed")
	minutes := set.Int("minutes", 0, "start nothing after this many minutes; 0: no limit")
	only := set.String("only", "", "names of checks, as a regular expression")
	fresh := set.Bool("fresh", false, "begin anew, though an earlier nightly was stopped in the middle")
	lanes := set.Int("lanes", 2, "checks at a time")
	set.Parse(args[1:])
	pattern, err := begins(*only)
	if err != nil {
		return err
	}
	r := &runner{began: time.Now().Add(-*elapsed), lanes: *lanes, logs: filepath.Join("build", "checks"), out: os.Stdout,
		known: newInputs(), records: recordFile(filepath.Join(".ci", "passed"))}
	switch args[0] {
	case "list":
		return r.list(table)
	case "run":
		return r.runNamed(ctx, table, set.Args())
	case "ci":
		return r.change(ctx, table)
	case "passed":
		return r.unrecorded(ctx, table, time.Duration(*minutes)*time.Minute)
	case "nightly":
		return r.nightly(ctx, table, pattern, time.Duration(*minutes)*time.Minute, *fresh)
	}
	return fmt.Errorf("%q is none of list, run, ci, passed, nightly", args[0])
}

// begins finds the names that begin as a regular expression says.
func begins(only string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + only + ")") }

// repository is the folder above this one that has .ci/run.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, ".ci", "run")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it in the repository")
		}
		dir = parent
	}
}
