package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Speed is what the disk of a directory does with payloads of one size, one call after another.
type Speed struct {
	Payload int64         // bytes
	Blocks  int           // that were written and read
	Write   float64       // bytes a second, synced
	Read    float64       // bytes a second, by one call for all
	First   time.Duration // what a call for one payload takes: the median
	// Cold: reads came from the disk, as far as this system can tell. Otherwise it kept what was written in memory, and the
	// disk may be slower.
	Cold bool
}

const (
	measured     = 128 << 20 // bytes
	fewMeasured  = 8         // blocks
	mostMeasured = 1024
	singles      = 8 // blocks that are read alone
)

// Measure finds out how fast a directory is by a tier in a new one in it, of Options.Payload and with the other options, which
// takes seconds and some 128 MiB, or 8 payloads. It leaves nothing behind, not even Options.Dir if that was not there; where its process is killed, the next
// Measure, Open or Prepare of Options.Dir removes the new one. Errors are those of Open with
// Options.Dir, that of the context, and tier.ErrConfig when there is no room.
func Measure(ctx context.Context, o Options) (s Speed, err error) {
	if _, err := o.filled(); err != nil {
		return s, err
	}
	made := files.Missing(o.Dir)
	defer func() {
		for _, dir := range made {
			_ = os.Remove(dir) // it is empty, or somebody else has begun to use it
		}
	}()
	if err := usable(o.Dir); err != nil {
		return s, opening(o.Dir, err)
	}
	dir, err := os.MkdirTemp(o.Dir, measuring)
	if err != nil {
		return s, opening(o.Dir, err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	n := min(max(measured/o.Payload, fewMeasured), mostMeasured)
	stride := (&codec{payload: o.Payload}).stride()
	if need := 3*page + n*(stride+entryBytes); o.Bytes == 0 || o.Bytes > need {
		o.Bytes = need
	}
	whole := o.Dir
	o.Dir, o.Namespace.About = dir, map[string]string{purpose: "may be removed"}
	t, err := Open(o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	blocks := noise(int(n), int(o.Payload))
	s, err = t.measure(ctx, blocks)
	if err == nil && s.Blocks == 0 {
		err = tier.ErrConfig{Name: name, What: fmt.Sprintf("%s has no room for %d blocks of %s above the floor of %s; make room, or lower the floor",
			whole, fewMeasured, bytesize.String(o.Payload), bytesize.String(t.o.Floor))}
	}
	return s, err
}

// usable says why a tier could not be opened in a directory.
func usable(dir string) error {
	sys := machine{}
	if err := sys.Prepare(dir); err != nil {
		return err
	}
	lock := filepath.Join(dir, "lock")
	if _, err := os.Lstat(lock); os.IsNotExist(err) {
		return nil
	}
	f, err := sys.Open(lock)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Lock(); errors.Is(err, errLocked) {
		return ErrInUse{dir}
	} else if err != nil {
		return err
	}
	return nil
}

// noise is blocks of bytes that no file system can compress. They share their bytes, shifted.
func noise(n, payload int) []tier.Block {
	bytes := make([]byte, payload+64*n)
	rng := rand.NewChaCha8([32]byte{27})
	_, _ = rng.Read(bytes)
	blocks := make([]tier.Block, n)
	for i := range blocks {
		blocks[i].Bytes = bytes[64*i:][:payload]
		_, _ = rng.Read(blocks[i].Key[:])
		blocks[i].Sum = blocks[i].Summed()
	}
	return blocks
}

// measure writes blocks and reads them. Speed.Blocks is 0 where there is no room for a few of them.
func (t *Tier) measure(ctx context.Context, blocks []tier.Block) (s Speed, err error) {
	began := time.Now()
	if err := t.Put(ctx, blocks); err != nil {
		return s, err
	}
	if err := t.Sync(); err != nil {
		return s, err
	}
	took := time.Since(began)
	stored := t.Stats()
	if stored.Blocks < fewMeasured {
		return s, nil
	}
	s = Speed{Payload: t.codec.payload, Blocks: int(stored.Blocks), Cold: true, Write: float64(stored.Written) / took.Seconds()}
	var there []tier.Block
	room := make([]byte, s.Payload) // one after another is read to the same place
	for i := range blocks {
		if n, err := t.Has(ctx, []tier.Key{blocks[i].Key}); err != nil {
			return s, err
		} else if n == 1 {
			there = append(there, tier.Block{Key: blocks[i].Key, Bytes: room})
		}
	}
	read := func(blocks []tier.Block) (time.Duration, error) {
		began := time.Now()
		n, err := t.Get(ctx, blocks)
		if err == nil && n < len(blocks) {
			err = tier.ErrFailed{Name: name, Op: "get", Err: errors.New("what was written is not what is read")}
		}
		return time.Since(began), err
	}
	var alone []time.Duration
	s.Cold = t.uncached()
	for i := range singles {
		one := i * len(there) / singles
		took, err := read(there[one : one+1])
		if err != nil {
			return s, err
		}
		alone = append(alone, took)
	}
	slices.Sort(alone)
	s.First = alone[len(alone)/2]
	s.Cold = t.uncached() && s.Cold
	if took, err = read(there); err != nil {
		return s, err
	}
	s.Read = float64(len(there)) * float64(s.Payload) / took.Seconds()
	return s, nil
}

// uncached has the system forget what it keeps of the payloads in memory, and tells whether it did.
func (t *Tier) uncached() bool {
	f, ok := t.data.(*osFile)
	return ok && f.forget()
}
