package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of a file, so that a wrong one ends with an error before the memory does.
const (
	maxLine = 64 << 20 // bytes of a request that is a line
	maxFile = 1 << 30  // bytes of a file that is one JSON value
	peek    = 64 << 10 // bytes that must show the format
)

// reader reads r into b.
type reader func(ctx context.Context, b *builder, file string, r *bufio.Reader) error

// Read reads a trace from files: Mooncake's JSON lines or agentic sessions, which
// their content tells apart. Of a directory all files are read whose names end in .json or
// .jsonl. Requests of several files are interleaved by time, and an id of one file
// is another block than the same id of another file. ErrTrace says what is wrong.
func Read(ctx context.Context, paths ...string) (*Trace, error) {
	b := newBuilder()
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, at(path, "", err)
		}
		for _, file := range files {
			b.newSpace()
			if err := readFile(ctx, b, file); err != nil {
				return nil, at(file, "", err)
			}
		}
	}
	name := strings.Join(paths, ",")
	if b.trace.References() == 0 {
		return nil, ErrTrace{File: name, Why: errors.New("has no request with a block")}
	}
	return b.finish(name), nil
}

// filesOf is path itself or, where it is a directory, the traces in it by name.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".json" || ext == ".jsonl") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("the directory holds no .json or .jsonl file")
	}
	return files, nil
}

func readFile(ctx context.Context, b *builder, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return readFrom(ctx, b, file, f)
}

func readFrom(ctx context.Context, b *builder, file string, from io.Reader) error {
	r := bufio.NewReaderSize(from, peek)
	head, err := r.Peek(peek)
	if err != nil && err != io.EOF {
		return err
	}
	read, err := detect(head)
	if err != nil {
		return err
	}
	return read(ctx, b, file, r)
}

// detect chooses the format by the first member that only one of them has.
func detect(head []byte) (reader, error) {
	if len(bytes.TrimSpace(head)) == 0 {
		return nil, errors.New("the file is empty")
	}
	d := json.NewDecoder(bytes.NewReader(head))
	if open, err := d.Token(); err == nil && open == json.Delim('{') {
		for d.More() {
			name, err := d.Token()
			key, isKey := name.(string)
			if err != nil || !isKey {
				break
			}
			if slices.Contains(agenticMembers, key) {
				return readAgentic, nil
			}
			if slices.Contains(mooncakeMembers, key) {
				return readMooncake, nil
			}
			var skipped json.RawMessage
			if d.Decode(&skipped) != nil {
				break
			}
		}
	}
	return nil, fmt.Errorf("neither a Mooncake trace (lines with %s) nor an agentic one (an object with %s)",
		strings.Join(mooncakeMembers, ", "), strings.Join(agenticMembers, ", "))
}

// useBlocks notes the block size of a file, which all files must share: hits of
// blocks of different sizes cannot be added.
func (b *builder) useBlocks(tokens int) error {
	if have := b.trace.BlockTokens; have != 0 && have != tokens {
		return fmt.Errorf("has blocks of %d tokens, the files before it of %d; replay them one by one", tokens, have)
	}
	b.trace.BlockTokens = tokens
	return nil
}
