package kvcache

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/*.txt
var scripts embed.FS

// Which block belongs to whom, and where rows of a step go, of scripted histories.
// The CPU is done with a step when it returns; elsewhere blocks come back at other times.
func TestTables(t *testing.T) {
	for _, name := range []string{"paged", "contiguous", "shared", "moved"} {
		t.Run(name, func(t *testing.T) {
			s := &tables{t: t, seqs: map[string]*Sequence[buffer]{}}
			golden.Run(t, scripts, "testdata/"+name+".txt", func(_ testing.TB, c golden.Command) string { return s.do(c) })
			s.close()
		})
	}
}

// tables is a pool that a script works on, and its sequences by name.
type tables struct {
	t    *testing.T
	r    *rig[buffer]
	seqs map[string]*Sequence[buffer]
}

func (s *tables) do(c golden.Command) string {
	before := s.r
	out, err := s.run(c)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", c.Name, err)
	}
	if before != nil {
		require.NoError(s.t, s.r.pool.Check())
	}
	return out
}

// run does what a command says:
//
//	pool paged|contiguous blocks=N       four tokens a block; tree: prefixes are shared
//	open a=1-9                           a sequence for a prompt; a: for none
//	step a=1-6 b=7                       a step of some sequences and their new tokens
//	fork b=a, truncate a=5, shift a=1-3, keep a=0-3,8, reserve a=12, release a
//	sync                                 waits for the device
//	show                                 all sequences, and the pool's numbers
func (s *tables) run(c golden.Command) (string, error) {
	if c.Name == "pool" {
		s.open(c)
		return "", nil
	}
	switch c.Name {
	case "step":
		return s.step(c.Args)
	case "sync":
		return "", s.r.s.Sync()
	case "show":
		return s.show(), nil
	}
	name, value := c.Args[0].Key, c.Args[0].Value
	if c.Name == "fork" {
		child, err := s.seqs[value].Fork()
		if err == nil {
			s.seqs[name] = child
		}
		return "", err
	}
	list, seq := numbers(value), s.seqs[name]
	switch c.Name {
	case "open":
		opened, m, err := s.r.pool.Open(list, OpenOptions{})
		if err == nil {
			s.seqs[name] = opened
		}
		return fmt.Sprintf("%s: %d tokens found, %d to compute\n", name, m.Cached, m.Uncached), err
	case "truncate":
		return "", seq.Truncate(int(list[0]))
	case "shift":
		return "", seq.Shift(s.r.s, int(list[0]), int(list[len(list)-1])+1)
	case "keep":
		var kept []int
		for _, i := range list {
			kept = append(kept, int(i))
		}
		return "", seq.Retain(s.r.s, [][]int{kept}, RetainOptions{})
	case "reserve":
		return "", s.r.pool.Reserve(Reservation[buffer]{Seq: seq, Tokens: int(list[0])})
	case "release":
		delete(s.seqs, name)
		return "", seq.Release()
	}
	s.t.Fatalf("no command %q", c.Name)
	return "", nil
}

// open opens the pool of a script.
func (s *tables) open(c golden.Command) {
	layout := Paged
	if c.Args[0].Key == "contiguous" {
		layout = Contiguous
	}
	cfg := small(layout)
	cfg.Model.Layers, cfg.Memory.Prefix = 1, prefix.Off
	for _, a := range c.Args[1:] {
		switch a.Key {
		case "blocks":
			cfg.Memory.Blocks = int(numbers(a.Value)[0])
		case "tree":
			cfg.Memory.Prefix = prefix.LRU
		}
	}
	s.r = newRig(s.t, backend.Erase[*cpu.Buffer](openCPU(s.t)), cfg)
}

// step computes new tokens and prints what the device is told of them: of each sequence its
// row of the block table, its length, and the slots and positions of the tokens.
func (s *tables) step(args []golden.Arg) (string, error) {
	var feeds []feed[buffer]
	for _, a := range args {
		feeds = append(feeds, feed[buffer]{s.seqs[a.Key], numbers(a.Value)})
	}
	if err := s.r.plan(s.r.s, feeds...); err != nil {
		return "", err
	}
	var out strings.Builder
	ix := &s.r.step.step.Steps[0].Index
	for i, a := range args {
		begin, end := ix.Offsets.Host[i], ix.Offsets.Host[i+1]
		used := s.r.pool.cfg.BlocksOf(int(ix.Lens.Host[i]))
		fmt.Fprintf(&out, "%s: table %v, length %d, slots %s, positions %s\n", a.Key, ix.Written().Tables.Host[i*ix.Written().Stride:][:used],
			ix.Lens.Host[i], spans(ix.Slots.Host[begin:end]), spans(ix.Positions.Host[begin:end]))
	}
	if n := len(ix.Pairs.Host); n > 0 {
		fmt.Fprintf(&out, "copied blocks %v\n", ix.Pairs.Host)
	}
	s.r.write(s.r.s, feeds...)
	return out.String(), s.r.step.Commit()
}

func (s *tables) show() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.seqs)) {
		seq := s.seqs[name]
		fmt.Fprintf(&out, "%s: %d tokens in blocks %v\n", name, seq.Len(), seq.Blocks(nil))
	}
	st, err := s.r.pool.Stats()
	require.NoError(s.t, err)
	fmt.Fprintf(&out, "%d blocks: %d free, %d cached, %d held (%d logical), %d reserved\n",
		st.Blocks, st.Free, st.Cached, st.Held, st.Logical, st.Reserved)
	return out.String()
}

func (s *tables) close() {
	var errs []error
	for _, seq := range s.seqs {
		errs = append(errs, seq.Release())
	}
	require.NoError(s.t, errors.Join(append(errs, s.r.step.Reset())...))
	s.r.close()
}

// spans is a list of numbers as numbers reads it.
func spans[T int64 | uint32](list []T) string {
	var out []string
	for i := 0; i < len(list); {
		end := i + 1
		for end < len(list) && list[end] == list[end-1]+1 {
			end++
		}
		word := fmt.Sprint(list[i])
		if end > i+1 {
			word = fmt.Sprintf("%d-%d", list[i], list[end-1])
		}
		out = append(out, word)
		i = end
	}
	return strings.Join(out, ",")
}

// numbers reads "1-3,7": 1, 2, 3 and 7.
func numbers(text string) (out []uint32) {
	if text == "" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(word, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, other := strconv.Atoi(last)
		if err = errors.Join(err, other); err != nil {
			panic(err)
		}
		for i := from; i <= to; i++ {
			out = append(out, uint32(i))
		}
	}
	return out
}
