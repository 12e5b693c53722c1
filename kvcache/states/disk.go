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

// disk is how files change, and what room there is. Tests have others, which are full, fail or die.
type disk struct {
	write  func(path string, b []byte, sync bool) error // as a whole or not at all
	remove func(path string) error                      // what is not there, too
	space  func(dir string) (free, total int64, err error)
	sync   func(dir string) error // the names of the files in it
}

var machine = disk{writeFile, removeFile, files.Space, files.SyncDir}

// written counts files that this process has written.
var written atomic.Uint64

// unfinished is what the names of files end with until they are whole: a number between dots.
const unfinished = ".new"

func writeFile(path string, b []byte, sync bool) error {
	name := path + "." + strconv.FormatUint(written.Add(1), 10) + unfinished
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		return errors.Join(err, removeFile(name))
	}
	return nil
}

// makeFolder makes the folder of a file, if it is not there. Those that are were looked at when the directory was opened.
func makeFolder(path string) error {
	if err := os.Mkdir(filepath.Dir(path), 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readFile reads a file that is its owner's alone and has so many bytes at most, into room where that suffices.
func readFile(path string, room []byte, most int64) ([]byte, error) {
	f, err := files.Open(path, os.O_RDONLY)
	if err != nil {
		return room, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return room, err
	}
	n := info.Size()
	if n > most {
		return room, errTooLong
	}
	if int64(cap(room)) < n {
		room = make([]byte, n)
	}
	_, err = io.ReadFull(f, room[:n])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTooLong
	}
	return room[:n], err
}

var errTooLong = errors.New("it has another length than it may have")

// isSum reports whether a name is that of a manifest or a chunk: 64 hexadecimal digits in lower case.
func isSum(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// isUnfinished reports whether a name is that of a file whose writing did not end, and that has such a name when it has.
func isUnfinished(name string, is func(string) bool) bool {
	name, cut := strings.CutSuffix(name, unfinished)
	at := strings.LastIndexByte(name, '.')
	return cut && at > 0 && at < len(name)-1 && strings.Trim(name[at+1:], "0123456789") == "" && is(name[:at])
}

func (s *Store) manifestPath(id ID) string { return filepath.Join(s.dir, "states", id.String()) }

func (s *Store) chunkPath(c sum) string {
	const separator = string(filepath.Separator)
	name := c.String()
	return s.dir + separator + "chunks" + separator + name[:1] + separator + name // once, and not cleaned: it is for each chunk
}

// touch notes in the time of a manifest's file when its state was used.
func (s *Store) touch(id ID, at time.Time) { _ = os.Chtimes(s.manifestPath(id), at, at) }
