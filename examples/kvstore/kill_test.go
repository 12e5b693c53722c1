package kvstore

import (
	"bufio"
	"errors"
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

// child is what the test's own program does in another process: it commits other contents, until it dies at a change of a file, or is killed.
func child(path string) {
	number, path, _ := strings.Cut(path, "@")
	at, _ := strconv.Atoi(number)
	f := &faults{on: machine}
	f.happen = func(path string, b []byte) error {
		switch at % moments {
		case halfway:
			if b != nil {
				return half(path, b, die)
			}
		case afterIt:
			if b != nil {
				_ = machine.write(path, b)
			} else {
				_ = machine.remove(path)
			}
		}
		return die()
	}
	dir, err := open(path, small, f.disk())
	if err == nil {
		fmt.Println("open")
		f.done, f.at = 0, at/moments
		err = commits(dir)
	}
	fmt.Println(err)
}

// state is what the child commits in its round n, from 1: a text that grows, and another one that shares its beginning and is forgotten each second time.
func state(n int) (chat, other []byte) {
	chat = slices.Concat(noise(1, 2000), noise(uint64(n), 300*min(n, 10)))
	if n%2 == 1 {
		other = append(noise(1, 1500), byte(n))
	}
	return chat, other
}

func commits(dir *Dir) error {
	chat, err := dir.Open(ctx, "chat")
	other, err2 := dir.Open(ctx, "other")
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for n := 1; ; n++ {
		a, b := state(n)
		for s, content := range map[*Store][]byte{chat: a, other: b} {
			to, err := s.Prepare(ctx, len(content))
			if err != nil {
				return err
			}
			copy(to, content)
			if err := s.Commit(ctx, len(content)); err != nil {
				return err
			}
		}
		fmt.Println(n)
	}
}

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

// rounds reads what a child says to its end, and returns how many rounds it has said.
func rounds(t *testing.T, lines *bufio.Scanner, n int) int {
	for lines.Scan() {
		n++
		require.Equal(t, strconv.Itoa(n), lines.Text())
	}
	return n
}

// requireRound is that each name has what it had after a number of rounds, or what it has one round later, and that nothing else is left.
func requireRound(t *testing.T, path string, n int) {
	t.Helper()
	was, otherWas := []byte(nil), []byte(nil)
	if n > 0 {
		was, otherWas = state(n)
	}
	is, otherIs := state(n + 1)
	require.Contains(t, []string{string(was), string(is)}, string(reopened(t, path, "chat")))
	require.Contains(t, []string{string(otherWas), string(otherIs)}, string(reopened(t, path, "other")))
}

// Killed before, within or after any change of a file, a process leaves what it had committed before or what it was about to commit.
func TestKilledAtEachChange(t *testing.T) {
	path, each := t.TempDir()+"/d", 1
	if !testsize.Full() {
		each = 5 // no multiple of the moments
	}
	for change := moments; change < 40*moments; change += each {
		c, lines := startChild(t, path, change)
		n := rounds(t, lines, 0)
		require.Error(t, c.Wait(), "it was killed")
		requireRound(t, path, n)
		require.NoError(t, os.RemoveAll(path))
	}
}

// Killed at any time, likewise. Meanwhile nobody else can open the directory.
func TestKilled(t *testing.T) {
	path := t.TempDir() + "/d"
	for round := range 4 {
		c, lines := startChild(t, path, 0)
		_, err := Open(path)
		require.ErrorIs(t, err, ErrInUse{Dir: path})
		n := 0
		for range 3 + 7*round {
			require.True(t, lines.Scan())
			n++
		}
		require.NoError(t, c.Process.Kill())
		n = rounds(t, lines, n)
		require.Error(t, c.Wait(), "it was killed")
		requireRound(t, path, n)
	}
}
