package kvstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// sum is the SHA-256 of a chunk, and in hexadecimal digits its name.
type sum [sha256.Size]byte

func (s sum) String() string               { return hex.EncodeToString(s[:]) }
func (s sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

func (s *sum) UnmarshalText(text []byte) error {
	if len(text) != 2*len(s) {
		return fmt.Errorf("a sum of %d digits", len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// chunk is a piece of a snapshot.
type chunk struct {
	Sum   sum `json:"sum"`
	Bytes int `json:"bytes"`
}

// list is what a snapshot consists of. Its file is what a Commit replaces, as a whole.
type list struct {
	Name   string  `json:"name"`
	Chunks []chunk `json:"chunks"`
}

// bytes is the length of the snapshot.
func (l *list) bytes() (n int) {
	if l != nil {
		for _, c := range l.Chunks {
			n += c.Bytes
		}
	}
	return n
}

// largest is the longest snapshot that is taken, so that no request, and no list, asks for more memory than a machine may have.
const largest = 64 << 30

// fileOf is the name of the file of a store's list. Any text is a name of a store, and not all are names of files.
func fileOf(name string) string { return sum(sha256.Sum256([]byte(name))).String() }

// A list's file is a line with what it is, and the sum of what comes after it, which is JSON.
const magic = "kvstore list 1 "

func (l *list) encode() ([]byte, error) {
	body, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s%s\n%s", magic, sum(sha256.Sum256(body)), body), nil
}

// decode reads the file of that name. What it is not is the error.
func decode(file string, b []byte) (*list, error) {
	head, body, _ := bytes.Cut(b, []byte{'\n'})
	if string(head) != magic+sum(sha256.Sum256(body)).String() {
		return nil, errors.New("it is not what was written")
	}
	l := &list{}
	if err := json.Unmarshal(body, l); err != nil {
		return nil, err
	}
	if fileOf(l.Name) != file {
		return nil, fmt.Errorf("it is that of %q", l.Name)
	}
	total := int64(0)
	for _, c := range l.Chunks {
		if total += int64(c.Bytes); c.Bytes <= 0 || total > largest || int64(int(total)) != total {
			return nil, fmt.Errorf("a chunk of %d bytes", c.Bytes)
		}
	}
	return l, nil
}

// replace makes a list that of its name, as a whole, and gives up the chunks of the one before. A list of nothing has no file.
func (d *Dir) replace(name string, l *list) error {
	path := d.listPath(name)
	if len(l.Chunks) == 0 {
		if err := d.disk.remove(path); err != nil {
			return err
		}
		syncDir(filepath.Dir(path)) // before its chunks go
	} else {
		b, err := l.encode()
		if err != nil {
			return err
		}
		if err := d.disk.write(path, b); err != nil {
			return err
		}
	}
	d.mu.Lock()
	before := d.lists[name]
	d.lists[name] = l
	if len(l.Chunks) == 0 {
		delete(d.lists, name)
	}
	delete(d.damaged, fileOf(name))
	d.mu.Unlock()
	if before != nil {
		d.drop(before.Chunks)
	}
	return nil
}
