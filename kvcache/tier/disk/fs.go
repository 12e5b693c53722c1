package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// fileSystem is what a tier needs of one: all that it does to files goes through here, so that tests can break it.
type fileSystem interface {
	// Prepare makes a directory that only its owner can use, if it is not there, and refuses one that others may write to. What
	// a killed Measure left there goes.
	Prepare(dir string) error
	// Open opens a file for reading and writing, or creates it for its owner alone; it refuses others' files, links and anything but a file.
	Open(path string) (file, error)
	// ReadFile reads the beginning of a file, which is refused as by Open.
	ReadFile(path string) ([]byte, error)
	// WriteFile makes a file that is there as a whole or not at all, and will be after a crash. One call at a time writes to a path.
	WriteFile(path string, b []byte) error
	// SyncDir makes sure that the files made in a directory will be there after a crash.
	SyncDir(dir string) error
	// Space returns the bytes that are free for this process, and those of the whole file system.
	Space(dir string) (free, total int64, err error)
	// Network returns the kind of the network file system that a directory is on, and "" if it is a local one.
	Network(dir string) (string, error)
}

// file is an open one.
type file interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	Truncate(size int64) error
	// Allocate makes the file longer, and takes what that needs if the file system can do so beforehand. The error is
	// errNoSpace where there is not that much.
	Allocate(from, to int64) error
	Sync() error
	// Lock keeps all others from locking the file until it is closed; errLocked: another did.
	Lock() error
	// There tells whether the file is still what its path leads to.
	There() bool
	Close() error
}

// machine is the file system of this machine.
type machine struct{}

func (machine) Prepare(dir string) error {
	if err := files.Prepare(dir); err != nil {
		return typed(err)
	}
	sweep(dir)
	return nil
}

// typed makes the error of a path that cannot be used the tier's.
func typed(err error) error {
	if why := (files.ErrRefused{}); errors.As(err, &why) {
		return tier.ErrConfig{Name: name, What: why.What}
	}
	return err
}

func (machine) Open(path string) (file, error) {
	f, err := files.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, typed(err)
	}
	return &osFile{f}, nil
}

func (machine) ReadFile(path string) ([]byte, error) {
	f, err := files.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, typed(err)
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, metaLargest+1))
}

func (m machine) WriteFile(path string, b []byte) error {
	whole := path + ".new" // one name, so that what a killed process left is replaced
	if err := os.Remove(whole); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(whole, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(whole, path)
	}
	if err != nil {
		os.Remove(whole)
		return err
	}
	return m.SyncDir(filepath.Dir(path))
}

// osFile is a file of this machine; Allocate, Sync and Lock are the platform's.
type osFile struct{ *os.File }

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) There() bool { return files.There(f.File) }

func (f *osFile) Lock() error { return typed(files.Lock(f.File)) }

// control calls a function with the descriptor, which stays open for that long.
func (f *osFile) control(call func(fd uintptr) error) error { return files.Control(f.File, call) }

func (machine) SyncDir(dir string) error { return typed(files.SyncDir(dir)) }

func (machine) Space(dir string) (free, total int64, err error) { return files.Space(dir) }

func (machine) Network(dir string) (string, error) {
	kind, err := files.Network(dir)
	return kind, typed(err)
}
