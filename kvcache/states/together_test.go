package states

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A store is used by many goroutines, which put, read, find, delete and pin the same states at the same time, on a disk that is small and
// fails. What is read is always one of what was put, as a whole.
func TestTogether(t *testing.T) {
	var texts [][]byte
	for i := range uint64(4) {
		texts = append(texts, append(noise(1, 15_000), noise(i, int(4000*i))...))
	}
	var writes atomic.Int64
	on := quick
	on.write = func(f *os.File, b []byte) error {
		if writes.Add(1)%17 == 0 {
			return errDisk
		}
		return quick.write(f, b)
	}
	s := open(t, t.TempDir()+"/d", Options{Bytes: 200 * blockBytes, disk: &on})
	may := func(err error) bool {
		return err == nil || errors.Is(err, errDisk) || errors.Is(err, ErrFull{}) || errors.Is(err, ErrMiss{})
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 60 {
				k := numbered(random.IntN(5))
				id := namer{}.id(&k)
				var err error
				switch random.IntN(8) {
				case 0:
					err = s.Delete(id)
				case 1:
					err = s.Pin(id, random.IntN(4) == 0)
				case 2:
					_, _, err = s.Nearest(k.Identity, k.Tokens)
				case 3, 4:
					text := texts[random.IntN(len(texts))]
					_, err = s.Put(ctx, k, PutOptions{}, sources([][]byte{text, text[:100]})...)
				default:
					var parts []Part
					if parts, err = s.Get(ctx, id, nil); err == nil {
						same := func(b []byte) bool { return bytes.Equal(b, parts[0].Bytes) }
						if !slices.ContainsFunc(texts, same) || !bytes.Equal(parts[1].Bytes, parts[0].Bytes[:100]) {
							t.Error("a state that nobody has put")
						}
					}
				}
				if !may(err) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	requireTidy(t, s)
	require.LessOrEqual(t, s.Stats().Bytes, s.Stats().Budget)
	require.Zero(t, s.Stats().Damaged)
}

// Close waits for what runs.
func TestCloseWaits(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	reading, going := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	go func() {
		_, err := s.Put(ctx, numbered(1), PutOptions{}, Source{"target", readerFunc(func(b []byte) (int, error) {
			close(reading)
			<-going
			return copy(b, "state"), errors.New("it ends")
		})})
		done <- err
	}()
	<-reading
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for s.enter() == nil { // until Close has begun
		s.leave()
	}
	select {
	case <-closed:
		t.Fatal("it did not wait")
	default:
	}
	close(going)
	require.ErrorContains(t, <-done, "it ends")
	require.NoError(t, <-closed)
	requireTidy(t, reopenClosed(t, s))
}

func reopenClosed(t *testing.T, s *Store) *Store { return open(t, s.dir, Options{}) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
