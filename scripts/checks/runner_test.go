package main

import (
	"context"
	"os"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatPassesIsRecorded(t *testing.T) {
	g := newRig(t)
	pass, fail, each := sh("pass", "true"), sh("fail", "echo why it failed; false"), sh("each", "true")
	each.when = always
	moving := sh("moving", "date +%N >data/d.txt")
	table := []check{pass, fail, each, moving}
	require.NoError(t, g.runNamed(ctx, table, []string{"pass", "each"}))
	require.ErrorContains(t, g.runNamed(ctx, table, []string{"fail"}), "fail: exit status 1")
	require.Contains(t, g.out.String(), "why it failed")
	require.Equal(t, []string{"pass"}, g.recordedNames(table...))
	require.ErrorContains(t, g.runNamed(ctx, table, []string{"moving"}), "its inputs changed meanwhile")
	require.Empty(t, g.recordedNames(table...), "of other inputs")
	require.ErrorContains(t, g.runNamed(ctx, table, []string{"none"}), "there is no check none")
	require.ErrorContains(t, g.runNamed(ctx, table, nil), "pass, fail, each, moving")
}

func TestWithoutGitNothingIsRecorded(t *testing.T) {
	g := newRig(t)
	require.NoError(t, os.RemoveAll(".git"))
	c := sh("c", "true")
	require.NoError(t, g.runNamed(ctx, []check{c}, []string{"c"}))
	require.Equal(t, 1, g.ran(c))
	_, ok, err := g.records.find("c")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestChecksHaveFlagsOfTheirOwn(t *testing.T) {
	g := newRig(t)
	t.Setenv("GOFLAGS", "-short")
	t.Setenv("MAKEFLAGS", "w") // what make passed hands on: a make in a check would tell of its folder
	t.Setenv("MAKELEVEL", "1")
	c := sh("c", "echo flags $GOFLAGS $MORE$MAKEFLAGS$MAKELEVEL")
	c.env = []string{"MORE=more"}
	require.NoError(t, g.runNamed(ctx, []check{c}, []string{"c"}))
	require.Contains(t, g.out.String(), "flags -buildvcs=false more\n")
}

// What a machine cannot run has not failed there, and has not passed either.
func TestWhatIsSkippedIsNotRecorded(t *testing.T) {
	g := newRig(t)
	cannot := sh("cannot", "echo there is no emulator; exit 77")
	require.NoError(t, g.runNamed(ctx, []check{cannot}, []string{"cannot"}))
	require.Empty(t, g.recordedNames(cannot))
	require.NoError(t, g.change(ctx, []check{cannot}))
	require.Equal(t, 2, g.ran(cannot))
	require.Regexp(t, `(?m)^cannot +skipped`, g.out.String())
}

func TestChangeRunsWhatHasNoRecord(t *testing.T) {
	g := newRig(t)
	each, known, stale := sh("each", "true"), sh("known", "true"), sh("stale", "true")
	each.when = always
	night := sh("night", "true")
	night.when = atNight
	table := []check{each, known, stale, night}
	require.NoError(t, g.runNamed(ctx, table, []string{"known"}))
	g.restart()
	require.NoError(t, g.change(ctx, table))
	require.Equal(t, []int{1, 1, 1, 0}, []int{g.ran(each), g.ran(known), g.ran(stale), g.ran(night)})
	g.restart()
	require.NoError(t, g.change(ctx, table))
	require.Equal(t, []int{2, 1, 1}, []int{g.ran(each), g.ran(known), g.ran(stale)}, "recorded by the change before")
	g.write("data/d.txt", "2\n")
	g.restart()
	require.NoError(t, g.change(ctx, table))
	require.Equal(t, []int{3, 2, 2}, []int{g.ran(each), g.ran(known), g.ran(stale)})
	require.Regexp(t, `(?m)^each +ok +0s +0s$`, g.out.String())
}

func TestChangeEndsInTime(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		left    string
	}{{0, ""}, {lastStart, "left for want of time: long short"}, {changeLimit - 5*time.Minute, "left for want of time: long "}} {
		g := newRig(t)
		each, long, short := sh("each", "true"), sh("long", "true"), sh("short", "true")
		each.when, each.takes = always, time.Hour
		long.takes, short.takes = time.Minute, time.Minute
		require.NoError(t, g.records.write(record{name: "long", hash: "of other inputs", when: time.Unix(0, 0), took: 6 * time.Minute}))
		g.began = time.Now().Add(-c.elapsed)
		err := g.change(ctx, []check{short, each, long})
		if c.left == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.left)
			require.ErrorContains(t, err, "make passed")
		}
		require.Equal(t, 1, g.ran(each), "what is due for every change is never left")
	}
}

func TestFailuresDoNotHideEachOther(t *testing.T) {
	g := newRig(t)
	g.lanes = 1
	err := g.unrecorded(ctx, []check{sh("a", "false"), sh("b", "true"), sh("c", "echo reason; false")}, 0)
	require.ErrorContains(t, err, "failed: a c")
	require.Contains(t, g.out.String(), "reason")
	require.Regexp(t, `(?m)^b +ok`, g.out.String())
}

func TestNightlyGoesOn(t *testing.T) {
	g := newRig(t)
	a, b := sh("a", "true"), sh("b", "test -e data/fixed")
	table := []check{a, b}
	every := regexp.MustCompile("")
	require.NoError(t, g.runNamed(ctx, table, []string{"a"}))
	g.restart()
	require.ErrorContains(t, g.nightly(ctx, table, every, 0, false), "failed: b")
	require.Equal(t, 2, g.ran(a), "it trusts no record of others")
	g.restart()
	require.ErrorContains(t, g.nightly(ctx, table, every, 0, false), "failed: b")
	require.Equal(t, []int{2, 2}, []int{g.ran(a), g.ran(b)}, "and its own")
	g.restart()
	require.NoError(t, g.nightly(ctx, table, regexp.MustCompile("a"), 0, true))
	require.Equal(t, []int{3, 2}, []int{g.ran(a), g.ran(b)}, "unless it is to begin anew")
	g.write("data/fixed", "")
	g.restart()
	require.NoError(t, g.nightly(ctx, table, every, 0, false))
	require.Equal(t, []int{4, 3}, []int{g.ran(a), g.ran(b)}, "other inputs")
	require.Equal(t, []string{"a", "b"}, g.recordedNames(table...))
	g.restart()
	all := sh("all", "true") // of all files
	all.when, all.paths = always, nil
	for range 2 {
		require.NoError(t, g.nightly(ctx, []check{all}, every, 0, false))
		g.restart()
	}
	require.Equal(t, 1, g.ran(all))
	g.write("c/c.go", "package c // more\n")
	require.NoError(t, g.nightly(ctx, []check{all}, every, 0, false))
	require.Equal(t, 2, g.ran(all), "other sources")
	g.restart()
	g.began = time.Now().Add(-time.Hour)
	err := g.nightly(ctx, table, every, time.Minute, true)
	require.Error(t, err)
	require.Regexp(t, "left for want of time: (a b|b a) ", err.Error(), "the one that took longer comes first")
}

// Checks that write the same run one at a time, others beside them: here each waits for the other's.
func TestWhatWritesTheSameRunsAlone(t *testing.T) {
	g := newRig(t)
	g.lanes = 4
	work := func(name, of, other string) check {
		c := sh(name, "mkdir build/in-"+of+" && touch build/saw-"+of+" && until test -e build/saw-"+other+"; do sleep 0.01; done && rmdir build/in-"+of)
		c.alone = of
		return c
	}
	require.NoError(t, g.unrecorded(ctx, []check{work("a", "x", "y"), work("b", "x", "y"), work("c", "y", "x"), work("d", "y", "x"), sh("e", "true")}, 0))
}

func TestInterruptEndsWhatRuns(t *testing.T) {
	g := newRig(t)
	ctx, cancel := context.WithCancel(ctx)
	var begun atomic.Bool
	go func() {
		for {
			if _, err := os.Stat("build/a"); err == nil {
				begun.Store(true)
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err := g.unrecorded(ctx, []check{sh("a", "sleep 600 & wait"), sh("b", "sleep 600"), sh("c", "true"), sh("d", "true")}, 0)
	require.Regexp(t, `failed: (b )?a`, err.Error())
	require.True(t, begun.Load())
	require.Empty(t, g.recordedNames(sh("a", "sleep 600 & wait")))
}
