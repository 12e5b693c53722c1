// Looking into a directory that another process may have open: nothing in it is changed, not even what a crash left behind.

package states

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// Contents is what Look found in a directory.
type Contents struct {
	Version int
	Sealed  bool
	InUse   bool         // a process has the directory open
	Bytes   int64        // bytes that all files take, in blocks of 4 KiB
	States  []Info       // the most recently used first; nil if the directory is sealed and no secret was given
	Content int64        // bytes of all states, as if nothing were shared
	Unique  int64        // bytes of their chunks, each counted once
	Damaged []ErrDamaged // states that cannot be read as they were put; also in States, unless it is the manifest that is damaged
}

// Look reports what a directory of states contains, even if a process has it open, and changes nothing in it. It uses only the options Secret and
// Compressor. Of a sealed directory it reports no states unless Secret is set. Contents.Damaged has the states that Open would give up; if verify is
// true, Look also reads all chunks and adds the states that Get would give up. Of a directory that is being written to, each state is shown as it
// was at some moment. Look returns ErrConfig if dir is not a directory of states. If no process has the directory open, Look holds its lock for a
// moment.
func Look(ctx context.Context, dir string, o Options, verify bool) (Contents, error) {
	o, err := o.filled(dir)
	if err != nil {
		return Contents{}, err
	}
	s := &Store{dir: filepath.Clean(dir), o: o}
	if o.Secret != nil {
		s.names.secret = o.Secret
		if s.sealer, err = seal.New(o.Secret); err != nil {
			return Contents{}, failed("look", err)
		}
	}
	var out Contents
	m, err := s.lookMeta()
	if err == nil {
		out.Version, out.Sealed = m.Version, m.Sealed
		out.InUse, err = s.lookLock()
	}
	if err == nil {
		out.Bytes, err = bytesBelow(s.dir)
	}
	if err == nil && (!m.Sealed || s.sealer != nil) {
		err = s.lookStates(ctx, &out, verify)
	}
	if err != nil && !errors.Is(err, ErrConfig{}) {
		err = failed("look", err)
	}
	return out, err
}

// lookMeta is what a directory is. One that is sealed needs no secret here.
func (s *Store) lookMeta() (m meta, err error) {
	path := filepath.Join(s.dir, metaName)
	b, err := readFile(path, metaLargest)
	var why files.ErrRefused
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return m, badConfig("dir", "%s has no %s, and is no directory of states; name one that a program keeps states in", s.dir, metaName)
	case errors.Is(err, errLength):
		return m, badConfig(metaName, "%s has more than %d bytes, and is not that of states; name another directory", path, metaLargest)
	case errors.As(err, &why):
		return m, ErrConfig{metaName, why.What}
	case err != nil:
		return m, err
	}
	if m, err = readMeta(b); err != nil {
		return m, badConfig(metaName, "%s cannot be read: %v; name another directory", path, err)
	}
	if m.Sealed && s.sealer == nil { // no matter
		open := m
		open.Sealed = false
		return m, open.differs(s)
	}
	return m, m.differs(s)
}

// lookLock reports whether somebody has the lock.
func (s *Store) lookLock() (bool, error) {
	path := filepath.Join(s.dir, "lock")
	f, err := files.Open(path, os.O_RDWR) // which the lock of a network file system needs
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		f, err = files.Open(path, os.O_RDONLY) // as where the file system is read-only
	}
	if why := (files.ErrRefused{}); errors.As(err, &why) {
		return false, ErrConfig{"lock", why.What}
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := files.Lock(f); errors.Is(err, files.ErrLocked) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	return false, nil
}

// bytesBelow is what the files of a directory take, which may be named by a link.
func bytesBelow(dir string) (n int64, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				n += onDisk(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile
		}
		return err
	})
	return n, err
}
