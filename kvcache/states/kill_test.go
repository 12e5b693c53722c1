package states

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

// When a process dies, seen from one change of a file.
const (
	beforeIt = iota
	halfway
	afterIt
	moments
)

// die ends the process as nothing but the machine can end it.
func die() error {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

// child is what the test's own program does in another process: it puts states, or deletes one, until it dies at a change of a file, or is killed.
func child(path string) {
	number, path, _ := strings.Cut(path, "@")
	path, deletes := strings.CutPrefix(path, "delete:")
	at, _ := strconv.Atoi(number)
	f := &faults{on: quick}
	f.happen = func(c change) error {
		switch at % moments {
		case halfway:
			_ = c.half()
		case afterIt:
			_ = c.all()
		}
		return die()
	}
	s, err := Open(path, Options{disk: f.disk(), sizes: &small, Network: true, Secret: secret})
	if err == nil {
		fmt.Println("open")
		f.done, f.at = 0, at/moments
		if deletes {
			if err = s.Delete(namer{secret}.id(ptr(numbered(1)))); err == nil {
				fmt.Println("deleted")
				_ = die()
			}
		} else {
			err = rounds(s)
		}
	}
	fmt.Println(err)
}

// said is what the child stores in its round n, from 1: a text that grows, under one key, in two parts that belong together; and another
// that shares its beginning and is deleted each second time.
func said(n int) (chat [][]byte, other []byte) {
	chat = [][]byte{slices.Concat(noise(1, 2000), noise(uint64(n), 300*min(n, 10))), noise(uint64(n), 500)}
	if n%2 == 1 {
		other = append(noise(1, 1500), byte(n))
	}
	return chat, other
}

func rounds(s *Store) error {
	for n := 1; ; n++ {
		chat, other := said(n)
		if _, err := s.Put(ctx, numbered(1), PutOptions{}, sources(chat)...); err != nil {
			return err
		}
		var err error
		if other != nil {
			_, err = s.Put(ctx, numbered(2), PutOptions{}, sources([][]byte{other})...)
		} else {
			err = s.Delete(namer{secret}.id(ptr(numbered(2))))
		}
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func ptr(k Key) *Key { return &k }

func startChild(t *testing.T, path string, change int) (*exec.Cmd, *bufio.Scanner) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FERRUM_TEST_CHILD="+strconv.Itoa(change)+"@"+path)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "open", lines.Text())
	return c, lines
}

// lastRound reads what a child says to its end, and returns how many rounds it has said.
func lastRound(t *testing.T, lines *bufio.Scanner, n int) int {
	for lines.Scan() {
		n++
		require.Equal(t, strconv.Itoa(n), lines.Text())
	}
	return n
}

// stored is what a state has in a directory that nobody has open; "": there is none.
func stored(t *testing.T, path string, n int) string {
	t.Helper()
	s := open(t, path, Options{Secret: secret})
	defer func() { require.NoError(t, s.Close()) }()
	requireTidy(t, s)
	require.Zero(t, s.Stats().Damaged)
	info, err := s.Find(numbered(n))
	if err != nil {
		require.Equal(t, ErrMiss{}, err)
		return ""
	}
	parts, err := s.Get(ctx, info.ID, nil)
	require.NoError(t, err)
	var all []byte
	for _, p := range parts {
		all = append(all, p.Bytes...)
	}
	return string(all)
}

// requireRound is that each state is as after a number of rounds, or as one round later, and that nothing else is left.
func requireRound(t *testing.T, path string, n int) {
	t.Helper()
	was, otherWas := [][]byte{}, []byte(nil)
	if n > 0 {
		was, otherWas = said(n)
	}
	is, otherIs := said(n + 1)
	require.Contains(t, []string{string(slices.Concat(was...)), string(slices.Concat(is...))}, stored(t, path, 1))
	require.Contains(t, []string{string(otherWas), string(otherIs)}, stored(t, path, 2))
}

// Killed before, within or after any change of a file, a process leaves what it had stored before or what it was about to store.
func TestKilledAtEachChange(t *testing.T) {
	path, changes := t.TempDir()+"/d", 60
	if !testsize.Full() {
		changes = 30 // the first Put, the second, and what that replaces
	}
	for change := moments; change < changes*moments; change++ {
		c, lines := startChild(t, path, change)
		n := lastRound(t, lines, 0)
		require.Error(t, c.Wait(), "it was killed")
		requireRound(t, path, n)
		require.NoError(t, os.RemoveAll(path))
	}
}

// Killed while a pack is rewritten since most of it is dead, a process leaves what is used of it, in one pack or the other.
func TestKilledWhileRewriting(t *testing.T) {
	kept, whole := noise(1, 10_000), noise(1, 60_000)
	rewritten := false
	for change := moments; ; change++ {
		path := t.TempDir() + "/d"
		s := open(t, path, Options{Secret: secret})
		put(t, s, numbered(1), whole)
		put(t, s, numbered(2), kept)
		before := s.Stats().Bytes
		require.NoError(t, s.Close())
		c, lines := startChild(t, "delete:"+path, change)
		deleted := lines.Scan()
		require.Error(t, c.Wait(), "it was killed")
		packs, err := os.ReadDir(path + "/packs")
		require.NoError(t, err)
		rewritten = rewritten || len(packs) == 3 // both, and that of the end of what is kept
		require.Contains(t, []string{"", string(whole)}, stored(t, path, 1))
		require.Equal(t, string(kept), stored(t, path, 2))
		s = open(t, path, Options{Secret: secret})
		require.True(t, has(t, s, 1) || s.Stats().Bytes < before/3, "what is dead is got back, if not before then when the directory is opened")
		require.NoError(t, s.Close())
		if deleted {
			require.True(t, rewritten)
			return
		}
	}
}

// Killed at any time, likewise. Meanwhile nobody else can open the directory.
func TestKilled(t *testing.T) {
	path := t.TempDir() + "/d"
	for round := range 4 {
		c, lines := startChild(t, path, 0)
		_, err := Open(path, Options{Network: true})
		require.ErrorIs(t, err, ErrInUse{path})
		n := 0
		for range 3 + 7*round {
			require.True(t, lines.Scan())
			n++
		}
		require.NoError(t, c.Process.Kill())
		n = lastRound(t, lines, n)
		require.Error(t, c.Wait(), "it was killed")
		requireRound(t, path, n)
	}
}
