package kvstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// held is a chunk that lists name, or a Commit on its way. It is removed with the last of them.
type held struct {
	uses   int
	bytes  int
	stored bool // its file was written by somebody, and nobody has found it damaged
}

// take notes one more use of a chunk. The caller has the lock.
func (d *Dir) take(c chunk) *held {
	h := d.chunks[c.Sum]
	if h == nil {
		h = &held{bytes: c.Bytes}
		d.chunks[c.Sum] = h
	}
	h.uses++
	return h
}

// keep stores a chunk that is not there, for the caller to name it in a list or to drop it. Two that store the same one write the same file.
func (d *Dir) keep(b []byte) (chunk, error) {
	c := chunk{sha256.Sum256(b), len(b)}
	path := d.chunkPath(c.Sum)
	d.mu.Lock()
	h := d.take(c)
	stored, err := h.stored, makeFolder(filepath.Dir(path)) // with the lock: who finds it there, finds it to last
	d.mu.Unlock()
	if info, err := os.Stat(path); stored && err == nil && info.Size() == int64(len(b)) {
		return c, nil
	}
	if err == nil {
		err = d.disk.write(path, b)
	}
	if err != nil {
		d.drop([]chunk{c})
		return c, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h.stored = true
	d.written += int64(len(b))
	return c, nil
}

// drop gives up uses of chunks. A file that cannot be removed now is when the directory is opened next.
func (d *Dir) drop(chunks []chunk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range chunks {
		h := d.chunks[c.Sum]
		if h.uses--; h.uses > 0 {
			continue
		}
		delete(d.chunks, c.Sum)
		if len(d.damaged) == 0 {
			_ = d.disk.remove(d.chunkPath(c.Sum))
		}
	}
}

// read fills b with a chunk of a store, and verifies it. One that is damaged is written again by whoever commits the same bytes next.
func (d *Dir) read(name string, c chunk, b []byte) error {
	err := fill(d.chunkPath(c.Sum), b)
	if err == nil && sum(sha256.Sum256(b)) != c.Sum {
		err = ErrCorrupt{What: "has other bytes"}
	}
	var damage ErrCorrupt
	switch {
	case errors.Is(err, fs.ErrNotExist):
		damage = ErrCorrupt{name, fmt.Sprintf("chunk %v is missing", c.Sum), err}
	case errors.As(err, &damage):
		damage = ErrCorrupt{Name: name, What: fmt.Sprintf("chunk %v %s", c.Sum, damage.What)}
	default:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chunks[c.Sum].stored = false
	return damage
}

// fill reads a file that has to have as many bytes as b.
func fill(path string, b []byte) error {
	if err := regular(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != int64(len(b)) {
		return ErrCorrupt{What: fmt.Sprintf("has %d bytes instead of %d", info.Size(), len(b))}
	}
	_, err = io.ReadFull(f, b)
	return err
}
