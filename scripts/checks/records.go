package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record says that a check passed whole: of which inputs, when, how long it took, and with
// which versions of its tools.
type record struct {
	name  string
	hash  string
	when  time.Time
	took  time.Duration
	tools []string // "name=version", of those that were there
}

// recordFile is a file of records, a line each, sorted by name so that changes to it merge.
type recordFile string

const recordHead = "# What last passed whole, and of which inputs: name, hash of them, time, duration, tools.\n" +
	"# Checks write it when they pass (make passed); it is not edited.\n"

func (f recordFile) read() ([]record, error) {
	content, err := os.ReadFile(string(f))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []record
	for i, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRecord(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", f, i+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

func parseRecord(line string) (r record, err error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 5 {
		return r, fmt.Errorf("%d fields, want 5; delete the line, and run the check", len(fields))
	}
	r.name, r.hash = fields[0], fields[1]
	if r.when, err = time.Parse(time.RFC3339, fields[2]); err != nil {
		return r, err
	}
	if r.took, err = time.ParseDuration(fields[3]); err != nil {
		return r, err
	}
	if fields[4] != "" {
		r.tools = strings.Split(fields[4], "; ")
	}
	return r, nil
}

func (r record) String() string {
	return strings.Join([]string{r.name, r.hash, r.when.UTC().Format(time.RFC3339), r.took.Round(time.Second).String(), strings.Join(r.tools, "; ")}, "\t")
}

// write puts a record in the place of an older one of its name. Processes write one after
// another, each after reading what the others wrote.
func (f recordFile) write(r record) error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	records, err := f.read()
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(o record) bool { return o.name == r.name })
	records = append(records, r)
	slices.SortFunc(records, func(a, b record) int { return strings.Compare(a.name, b.name) })
	var text strings.Builder
	text.WriteString(recordHead)
	for _, r := range records {
		fmt.Fprintln(&text, r)
	}
	next, err := os.CreateTemp(filepath.Dir(string(f)), ".record")
	if err != nil {
		return err
	}
	_, err = next.WriteString(text.String())
	err = errors.Join(err, next.Chmod(0o644), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), string(f))
	}
	if err != nil {
		os.Remove(next.Name())
	}
	return err
}

// lock waits until no other process writes, for as long as writing takes many times over.
func (f recordFile) lock() (unlock func(), err error) {
	name := string(f) + ".lock"
	for range 500 {
		held, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			return func() { os.Remove(name) }, held.Close()
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s is there for seconds: delete it, if no check is running", name)
}

// find is the record of a check, if it has one.
func (f recordFile) find(name string) (record, bool, error) {
	records, err := f.read()
	i := slices.IndexFunc(records, func(r record) bool { return r.name == name })
	if err != nil || i < 0 {
		return record{}, false, err
	}
	return records[i], true, nil
}

// holds says why a record is not of these inputs, or nothing. A tool that is not installed
// here cannot be another one than that of the record.
func (r record) holds(hash string, version func(tool string) string) (why string) {
	if r.hash != hash {
		return "inputs changed"
	}
	for _, t := range r.tools {
		tool, recorded, _ := strings.Cut(t, "=")
		if now := version(tool); now != "" && now != recorded {
			return "another " + tool
		}
	}
	return ""
}
