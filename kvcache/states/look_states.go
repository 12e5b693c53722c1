// How states are looked at while others change packs and manifests.

package states

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// looking is what is known of a directory while its states are looked at. Others may change it: a pack of a name has the same always, but goes once
// what is used of it is in another one.
type looking struct {
	*Store
	verify bool
	listed []string // names of the packs
	found  found
	known  map[sum]string // what is wrong with a chunk; empty: nothing is
}

// lookStates reads the manifests and the indexes of packs, and the chunks where these are to be verified.
func (s *Store) lookStates(ctx context.Context, out *Contents, verify bool) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "states"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l := &looking{Store: s, verify: verify, known: map[sum]string{}}
	if _, err := l.again(); err != nil {
		return err
	}
	out.States = []Info{}
	counted := map[sum]bool{}
	for _, e := range entries {
		if !isSum(e.Name()) {
			continue
		}
		st, what, err := l.lookState(ctx, e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went meanwhile, and its chunks with it
		}
		if err != nil {
			return err
		}
		if what != "" {
			out.Damaged = append(out.Damaged, ErrDamaged{ID(parseSum(e.Name())), what})
		}
		if st == nil {
			continue
		}
		out.States, out.Content = append(out.States, st.Info), out.Content+st.Bytes
		st.each(func(c chunk) {
			if !counted[c.Sum] {
				counted[c.Sum] = true
				out.Unique += int64(c.Bytes)
			}
		})
	}
	slices.SortFunc(out.States, func(a, b Info) int { return b.Used.Compare(a.Used) })
	return nil
}

// again looks where chunks are now, and reports whether the packs are others than the last time.
func (l *looking) again() (bool, error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, "packs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	names := []string{}
	for _, e := range entries {
		if isPack(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if err != nil || l.listed != nil && slices.Equal(names, l.listed) {
		return false, nil
	}
	l.listed = names
	l.found, err = l.findPacks()
	return true, err
}

// suspect is a chunk that seems to be wrong.
type suspect struct {
	place
	why string
}

// mostLooks is how often a state is looked at whose chunks are nowhere, while others change packs all the time.
const mostLooks = 10

// lookState is that of a manifest, and what is wrong with it: with its chunks, or with the manifest, and then there is no state. A chunk is wrong that is so
// where it is still, when packs are listed again; one that is nowhere, if neither the manifest nor the packs have changed since.
func (l *looking) lookState(ctx context.Context, e os.DirEntry) (st *state, what string, err error) {
	var before *state
	for looks := 1; ; looks++ {
		if st, err = l.readManifest(filepath.Join(l.dir, "states", e.Name()), e); err != nil {
			return nil, "", err
		}
		if st == nil {
			return nil, "its manifest is not what was written", nil
		}
		suspects, what, err := l.lookChunks(ctx, st)
		if err != nil || len(suspects) == 0 {
			return st, what, err
		}
		changed, err := l.again()
		if err != nil {
			return nil, "", err
		}
		still := looks >= mostLooks || !changed && before != nil && slices.EqualFunc(before.chunks, st.chunks, slices.Equal[[]chunk])
		for c, was := range suspects {
			is := l.found.stored[c].place
			if still || is.pack != nil && was.pack != nil && is.pack.path == was.pack.path && is.at == was.at {
				l.known[c] = was.why
			}
		}
		before = st
	}
}

// lookChunks looks at those of a state that are not known: what is wrong with them, as it seems, and with one that is known.
func (l *looking) lookChunks(ctx context.Context, st *state) (suspects map[sum]suspect, what string, err error) {
	w, room := l.work(st.Key.Salt), make([]byte, l.o.sizes.max)
	defer l.release(w)
	suspects = map[sum]suspect{}
	st.each(func(c chunk) {
		why, known := l.known[c.Sum]
		what = cmp.Or(what, why)
		if known || suspects[c.Sum].why != "" || err != nil {
			return
		}
		if err = ctx.Err(); err != nil {
			return
		}
		at := l.found.stored[c.Sum]
		var lost errLost
		switch {
		case at.bytes != c.Bytes:
			lost = errLost{c, "is missing"}
		case !l.verify:
		default:
			if err = l.read(w, c, &held{place: at.place}, room[:c.Bytes], false); errors.As(err, &lost) {
				err = nil
			}
		}
		if lost.what != "" {
			suspects[c.Sum] = suspect{at.place, lost.Error()}
		} else if err == nil {
			l.known[c.Sum] = ""
		}
	})
	return suspects, what, err
}
