package states

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// disk is how files change, one step a function, and what room there is. Tests have others, which are full, fail or die at a step.
type disk struct {
	create func(path string) (*os.File, error) // a file that is not there
	write  func(f *os.File, b []byte) error    // at its end
	flush  func(f *os.File) error              // to the medium
	rename func(from, to string) error         // in place of what is there
	remove func(path string) error             // what is not there, too
	sync   func(dir string) error              // the names of the files in it
	space  func(dir string) (free, total int64, err error)
}

var machine = disk{createFile, writeFile, (*os.File).Sync, os.Rename, removeFile, files.SyncDir, files.Space}

func createFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func writeFile(f *os.File, b []byte) error {
	_, err := f.Write(b)
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// drafts counts those that this process has made.
var drafts atomic.Uint64

// unfinished is what the names of drafts end with: a number between dots.
const unfinished = ".new"

// draft is a file that is being written. It has another name until it is whole.
type draft struct {
	on         *disk
	file       *os.File
	name, path string // now, and then
}

func (d *disk) draft(path string) (*draft, error) {
	name := path + "." + strconv.FormatUint(drafts.Add(1), 10) + unfinished
	f, err := d.create(name)
	if err != nil {
		return nil, err
	}
	return &draft{d, f, name, path}, nil
}

// end writes its last bytes and closes it; sync: when all of it is on the medium. It has its other name still.
func (f *draft) end(b []byte, sync bool) error {
	err := f.on.write(f.file, b)
	if err == nil && sync {
		err = f.on.flush(f.file)
	}
	return errors.Join(err, f.file.Close())
}

// finish gives it its name.
func (f *draft) finish() error { return f.on.rename(f.name, f.path) }

// whole writes a file that is not large.
func (d *disk) whole(path string, b []byte, sync bool) error {
	f, err := d.draft(path)
	if err != nil {
		return err
	}
	if err = f.end(b, sync); err == nil {
		err = f.finish()
	}
	if err != nil {
		return errors.Join(err, d.remove(f.name))
	}
	return nil
}

// readFile reads a file that is its owner's alone and has so many bytes at most.
func readFile(path string, most int64) ([]byte, error) {
	f, err := files.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, errLength
	}
	b := make([]byte, info.Size())
	return b, readAt(f, b, 0)
}

// readAt is ReadAt, for which an end is errLength.
func readAt(f *os.File, b []byte, at int64) error {
	if _, err := f.ReadAt(b, at); !errors.Is(err, io.EOF) {
		return err
	}
	return errLength
}

var errLength = errors.New("it has another length than it may have")

// isSum reports whether a name is that of a manifest: 64 hexadecimal digits in lower case.
func isSum(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// isUnfinished reports whether a name is that of a draft of a file whose name is such a one.
func isUnfinished(name string, is func(string) bool) bool {
	name, cut := strings.CutSuffix(name, unfinished)
	at := strings.LastIndexByte(name, '.')
	return cut && at > 0 && at < len(name)-1 && strings.Trim(name[at+1:], "0123456789") == "" && is(name[:at])
}

func (s *Store) manifestPath(id ID) string { return filepath.Join(s.dir, "states", id.String()) }

// touch notes in the time of a manifest's file when its state was used.
func (s *Store) touch(id ID, at time.Time) { _ = os.Chtimes(s.manifestPath(id), at, at) }
