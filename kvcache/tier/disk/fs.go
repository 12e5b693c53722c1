package disk

import (
	"io"
	"os"
	"path/filepath"
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

func (m machine) Prepare(dir string) error {
	dir = filepath.Clean(dir) // else a separator at the end would have a link followed
	if info, err := os.Lstat(dir); err == nil {
		if err := ownDirectory(dir, info); err != nil {
			return err
		}
	}
	made := missing(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := ownDirectory(dir, info); err != nil {
		return err
	}
	for _, d := range made { // else a crash may lose them, with all that is synced in them
		if err := m.SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	sweep(dir)
	return nil
}

func (machine) Open(path string) (file, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (machine) ReadFile(path string) ([]byte, error) {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
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

func (f *osFile) There() bool {
	now, err := os.Lstat(f.Name())
	if err != nil {
		return !os.IsNotExist(err)
	}
	is, err := f.Stat()
	return err != nil || os.SameFile(now, is)
}

// control calls a function with the descriptor, which stays open for that long.
func (f *osFile) control(call func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = call(fd) }); err != nil {
		return err
	}
	return failed
}
