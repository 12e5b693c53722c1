package kvstore

import (
	"io"
	"os"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// quick is the machine's disk, without waiting for it.
var quick = disk{
	write:  func(path string, b []byte) error { return os.WriteFile(path, b, 0o600) },
	remove: machine.remove,
}

// faults is a disk on which something else happens at one change of a file. Changes are counted from 1.
type faults struct {
	on     disk
	mu     sync.Mutex
	done   int
	at     int
	happen func(path string, b []byte) error // b: nil where the file is removed
}

func (f *faults) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done++
	return f.done == f.at
}

func (f *faults) disk() disk {
	return disk{
		write: func(path string, b []byte) error {
			if f.due() {
				return f.happen(path, b)
			}
			return f.on.write(path, b)
		},
		remove: func(path string) error {
			if f.due() {
				return f.happen(path, nil)
			}
			return f.on.remove(path)
		},
	}
}

// half writes half of a file, and has something happen before the rest.
func half(path string, b []byte, then func() error) error {
	return snapshot.WriteFile(path, func(w io.Writer) error {
		if _, err := w.Write(b[:len(b)/2]); err != nil {
			return err
		}
		return then()
	})
}
