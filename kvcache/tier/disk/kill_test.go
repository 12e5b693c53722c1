package disk

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// child is what the test's own program does in another process: it puts blocks of increasing numbers and says of each that it
// has returned, until it is killed.
func child(dir string) {
	d, err := Open(childOptions(dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("open")
	for n := 1; ; n++ {
		if err := d.Put(context.Background(), []tier.Block{blockOf(n, 0)}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n)
	}
}

func childOptions(dir string) Options {
	o := options(nil, 40)
	o.Dir, o.syncBytes, o.syncEvery = dir, 0, 0
	return o
}

func startChild(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FERRUM_TEST_CHILD="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	return c, lines
}

// A process that is killed leaves all that it has put, and a second one cannot open what it has open.
func TestKill(t *testing.T) {
	dir, last := t.TempDir(), 0
	for round := range 4 {
		c, lines := startChild(t, dir)
		require.Equal(t, "open", lines.Text())
		_, err := Open(childOptions(dir))
		require.ErrorIs(t, err, ErrInUse{dir})
		for range 60 + 37*round {
			require.True(t, lines.Scan())
		}
		require.NoError(t, c.Process.Kill())
		for n := 0; ; {
			if _, err := fmt.Sscan(lines.Text(), &n); err == nil {
				last = n
			}
			if !lines.Scan() {
				break
			}
		}
		require.Error(t, c.Wait(), "it was killed")

		d, err := Open(childOptions(dir))
		require.NoError(t, err)
		is := found(t, d, last+1)
		for n := last - 38; n <= last; n++ { // one more may be in the place of the oldest
			require.Contains(t, is, n, "put, of %d; %v", last, d.Stats())
		}
		require.Zero(t, d.Stats().Corrupt)
		require.NoError(t, d.Close())
	}
}
