package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a Run that goes on from what is saved, with a device of its own that is lost at a sample of the variant "breaks"
// or in the suite for "crashes".
func process(t *testing.T, path string, p Pack, f *fake) error {
	lost := false
	broken := func() error {
		if lost {
			return fmt.Errorf("%w: illegal address", ErrLost)
		}
		return nil
	}
	breaks := func(int) (float64, error) { lost = true; return 0, broken() }
	f.of["breaks"] = kernels{sample: breaks, close: broken}
	f.of["crashes"] = kernels{conform: func() error { lost = true; return broken() }}
	f.of[""] = kernels{prepare: func(string) error { return broken() }, close: broken}
	earlier, _ := ReadResults(path)
	_, err := Run(context.Background(), f, p, earlier, func(r Results) error { return r.Write(path) }, io.Discard)
	return err
}

func TestAnotherProcessGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	f := newFake(map[string]kernels{"first": {ratio: 0.8}, "last": {ratio: 0.8}})
	p := Pack{Commit: "34970b6", BudgetSeconds: 60, Variants: []Variant{of("first", long), of("crashes", "."), of("breaks", "^prefill"), of("last", steps)}}
	parts := 0
	out, err := Finish(path, time.Minute, func(context.Context) error { parts++; return process(t, path, p, f) }, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 3, parts)
	require.Equal(t, []string{"first", "last"}, out.Chosen)
	require.Equal(t, "does not conform: the device is lost: illegal address", out.result(t, "crashes").Dropped)
	require.Equal(t, long+": the device is lost: illegal address", out.result(t, "breaks").Dropped)
	require.Equal(t, begun, out.Started, "the budget is that of all processes")
	for _, call := range []string{"conform first", "conform crashes", "conform breaks", "conform last", "prepare first " + long, "prepare breaks " + long, "prepare last " + steps} {
		require.Equal(t, 1, strings.Count(strings.Join(f.calls, "\n")+"\n", call+"\n"), call)
	}
	require.NotContains(t, f.calls, "prepare breaks "+short)
}

// Where the device is gone for good nothing is learned, and that ends it.
func TestNothingIsLearned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	parts := 0
	_, err := Finish(path, time.Minute, func(context.Context) error { parts++; return errors.New("exit status 2") }, io.Discard)
	require.ErrorContains(t, err, "exit status 2")
	require.Equal(t, 1, parts)

	require.NoError(t, Results{Variants: []VariantResult{{Name: "a"}}}.Write(path))
	_, err = Finish(path, time.Minute, func(context.Context) error { parts++; return errors.New("exit status 2") }, io.Discard)
	require.EqualError(t, err, "a process ended and nothing was learned: exit status 2")
	require.Equal(t, 2, parts)
}

// A kernel that does not return takes its variant with it, and not those after it.
func TestProcessThatStandsStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	f := newFake(map[string]kernels{"last": {ratio: 0.8}})
	p := Pack{BudgetSeconds: 60, Variants: []Variant{of("endless", long), of("last", long)}}
	var said strings.Builder
	out, err := Finish(path, 200*time.Millisecond, func(ctx context.Context) error {
		earlier, _ := ReadResults(path)
		stopped := make(chan error, 1)
		f.of["endless"] = kernels{conform: func() error {
			<-ctx.Done()
			stopped <- errors.New("killed")
			select {} // of a process that is gone
		}}
		go func() {
			_, err := Run(context.Background(), f, p, earlier, func(r Results) error { return r.Write(path) }, io.Discard)
			stopped <- err
		}()
		return <-stopped
	}, &said)
	require.NoError(t, err)
	require.Equal(t, "conform hung or crashed", out.result(t, "endless").Dropped)
	require.Equal(t, []string{"last"}, out.Chosen)
	require.Equal(t, "another process goes on: nothing was learned for 200ms\n", said.String())
}
