package states

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// Store is an open directory of states. Its methods may be called concurrently.
type Store struct {
	dir     string
	o       Options
	lock    *os.File
	sealer  *seal.Sealer // nil: in the clear
	names   namer
	coders  sync.Pool // of work, for put and get
	batches sync.Pool // of keeper
	copies  *copies   // nil: there are none

	mu         sync.Mutex
	opened     bool
	calls      int        // that run
	idle       *sync.Cond // calls is 0
	states     map[ID]*state
	expires    time.Time // no state does before; zero: none does
	over       []*state  // that have expired, and whose manifests are still there
	index      index
	chunks     map[sum]*held
	packs      map[*pack]bool
	worn       map[*pack]bool // those of which blocks would be got back
	packNumber uint64         // of the last one
	packBytes  int64          // the most that one has, and what Put leaves of the budget
	dead       []dead
	untidy     bool  // something is dead that was not
	used       int64 // bytes that files take, in blocks, with those that are about to be written
	stats      Stats

	making sync.Mutex // held, without the lock, by what makes room

	fetching map[*arrival]struct{}
}

// Open opens a directory for this process alone, and creates it if it does not exist. The caller closes the store. Open removes what a crash left
// behind, and evicts states that do not fit into the budget. It returns ErrInUse if the directory is already open. It returns ErrConfig if the options
// are invalid, or if the directory is not a store of this version, is sealed differently, is on a network file system, or can be written to by
// others.
func Open(dir string, o Options) (_ *Store, err error) {
	if o, err = o.filled(dir); err != nil {
		return nil, err
	}
	s := &Store{dir: filepath.Clean(dir), o: o, states: map[ID]*state{}, index: index{}, chunks: map[sum]*held{}}
	s.packs, s.worn = map[*pack]bool{}, map[*pack]bool{}
	s.idle = sync.NewCond(&s.mu)
	if o.Secret != nil {
		s.names.secret = append([]byte(nil), o.Secret...)
		if s.sealer, err = seal.New(o.Secret); err != nil {
			return nil, failed("open", err)
		}
		s.o.Secret = nil
	}
	if err = s.openFiles(); err == nil {
		err = s.openCopies()
	}
	if err != nil {
		if s.lock != nil {
			_ = s.lock.Close()
		}
		return nil, err
	}
	s.opened = true
	return s, nil
}

func (s *Store) openFiles() (err error) {
	if err := files.Prepare(s.dir); err != nil {
		return refused("dir", err)
	}
	if !s.o.Network {
		kind, err := files.Network(s.dir)
		if err != nil {
			return refused("dir", err)
		}
		if kind != "" {
			return badConfig("Network", "%s is on %s, which may be a network; choose a local directory, or set Network", s.dir, kind)
		}
	}
	path := filepath.Join(s.dir, "lock")
	_, missing := os.Lstat(path)
	if s.lock, err = files.Open(path, os.O_RDWR|os.O_CREATE); err != nil {
		return refused("lock", err)
	}
	if err := files.Lock(s.lock); errors.Is(err, files.ErrLocked) || err == nil && !files.There(s.lock) {
		return ErrInUse{s.dir}
	} else if err != nil {
		return refused("lock", err)
	}
	defer func() {
		if err != nil && errors.Is(missing, fs.ErrNotExist) { // it is no store's, and stays as it was
			_ = os.Remove(path)
		}
	}()
	if err := s.o.measured(s.dir); err != nil {
		return refused("dir", err)
	}
	s.packBytes = max(min(s.o.Bytes/packsShare, mostPack), blockBytes)
	if err := s.checkMeta(); err != nil {
		return refused(metaName, err)
	}
	for _, name := range []string{"states", "packs"} {
		if err := files.Prepare(filepath.Join(s.dir, name)); err != nil {
			return refused(name, err)
		}
	}
	if err := s.load(); err != nil {
		return refused("dir", err)
	}
	return nil
}

// refused is ErrConfig of a path that cannot be used as it is; other errors say that they are of Open.
func refused(field string, err error) error {
	if why := (files.ErrRefused{}); errors.As(err, &why) {
		return ErrConfig{field, why.What}
	}
	if errors.As(err, new(ErrConfig)) || errors.As(err, new(ErrInUse)) {
		return err
	}
	return failed("open", err)
}

// Close waits for calls in progress, and for at most five seconds for states that are waiting to be copied, and releases the directory. Later calls
// return ErrClosed, but a later Close does nothing and returns nil. Close returns ErrCopies if a call of the tier does not return.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return nil
	}
	s.opened = false
	for s.calls > 0 {
		s.idle.Wait()
	}
	var err error
	if s.copies != nil {
		s.mu.Unlock()
		err = s.copies.close()
		s.mu.Lock()
	}
	s.states, s.index, s.chunks, s.packs, s.worn, s.dead, s.used = nil, nil, nil, nil, nil, nil, 0
	return errors.Join(s.lock.Close(), err)
}

// enter begins a call for which the store stays open, and in which no state is found whose lifetime is over; leave ends it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		return ErrClosed
	}
	s.expire()
	s.calls++
	return nil
}

func (s *Store) leave() {
	s.clean()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 {
		s.idle.Broadcast()
	}
}

// clean is tidy of what has become dead, or could not be removed before.
func (s *Store) clean() {
	for again := false; s.isUntidy(again) && s.making.TryLock(); again = true { // else who has it does it
		s.tidy(resting, map[*pack]bool{})
		s.making.Unlock()
	}
}

// work is what a goroutine needs to write or read chunks, until release.
func (s *Store) work(salt string) *coder {
	c, ok := s.coders.Get().(*coder)
	if !ok {
		c = &coder{compressor: s.o.Compressor, sealer: s.sealer}
	}
	c.sum = s.names.summer(salt)
	return c
}

func (s *Store) release(c *coder) {
	c.close()
	s.coders.Put(c)
}
