package files

import (
	"fmt"
	"io/fs"
	"os"
)

// ownDirectory refuses anything but a directory, and one that others can write to.
func ownDirectory(dir string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return refuse("%s is a symbolic link; name the directory that it leads to", dir)
	case !info.IsDir():
		return refuse("%s is %s, not a directory; choose another one", dir, kind(info))
	case foreign(info):
		return refuse("%s is another user's; choose another directory", dir)
	case writable(info):
		return refuse("%s can be written to by others (%v): chmod 700, or choose another directory", dir, info.Mode())
	}
	return nil
}

// Open opens a file without following a symbolic link or blocking on a pipe or device. It returns ErrRefused for a file that is not private to its
// owner. It checks the path before it opens it, because opening a device can have effects, and then checks the opened file again.
func Open(path string, flag int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil {
		if err := ownFile(path, info); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, flag|asItIs, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ownOpen(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func ownOpen(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := ownFile(f.Name(), info); err != nil {
		return err
	}
	n, err := links(f, info)
	if err == nil && n > 1 {
		err = refuse("%s is a hard link (%d names), and what is written to one is written to all: remove it, or choose another directory", f.Name(), n)
	}
	return err
}

// ownFile refuses anything but a file, and one that others can read or write.
func ownFile(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return refuse("%s is %s, not a file: remove it, or choose another directory", path, kind(info))
	case foreign(info):
		return refuse("%s is another user's; choose another directory", path)
	case shared(info):
		return refuse("%s can be used by others (%v): chmod 600, or remove it", path, info.Mode())
	}
	return nil
}

// ErrRefused reports a path that cannot be used as it is. What says why, and what to do about it.
type ErrRefused struct{ What string }

func (e ErrRefused) Error() string { return e.What }

func refuse(format string, args ...any) error { return ErrRefused{fmt.Sprintf(format, args...)} }

// kind names what a path leads to.
func kind(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
