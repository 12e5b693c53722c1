package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/stretchr/testify/require"
)

// TestMain is the program itself where a test has started it.
func TestMain(m *testing.M) {
	if os.Getenv("ROUTER_TEST_PROCESS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is the program in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Scanner
}

func start(t *testing.T, args ...string) *process {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "ROUTER_TEST_PROCESS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &process{t, cmd, in, bufio.NewScanner(out)}
}

// line is the next line that a process prints.
func (p *process) line() string {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the process ended")
	p.t.Log(p.out.Text())
	return p.out.Text()
}

func (p *process) say(line string) {
	p.t.Log("< " + line)
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
}

// until asks again until the answer is this one: events take a moment.
func (p *process) until(prompt, want string) {
	p.t.Helper()
	for {
		p.say(prompt)
		if have := p.line(); have == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ports is a port that is free, as is the next one.
func ports(t *testing.T) int {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		_ = l.Close()
		if err == nil {
			_ = next.Close()
			return port
		}
	}
}

// Two engines and a router, each in a process; the router comes after the first prompt, and outlives a kill -9 of an engine.
func TestThreeProcesses(t *testing.T) {
	const system = "You are a helpful assistant, and brief. "
	a, b := ports(t), ports(t)
	first := start(t, "engine", "-port", fmt.Sprint(a))
	require.Equal(t, fmt.Sprintf("events on port %d", a), first.line())
	first.say(system + "What is a KV cache?")
	require.Equal(t, "stored 3 blocks", first.line())
	router := start(t, "route", "-engines", fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", a, b))
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d: joined", a), router.line())
	router.until(system+"What is paging?", fmt.Sprintf("to 127.0.0.1:%d, which has 48 of 55 tokens", a))
	second := start(t, "engine", "-port", fmt.Sprint(b))
	second.line()
	second.say(system + "What is paging, in one sentence?")
	require.Equal(t, "stored 4 blocks", second.line())
	for router.line() != fmt.Sprintf("127.0.0.1:%d: joined", b) {
		continue
	}
	router.until(system+"What is paging, in one sentence? Thanks.", fmt.Sprintf("to 127.0.0.1:%d, which has 64 of 80 tokens", b))
	router.until("Something else", "to any engine: none has a block of these 14 tokens")

	require.NoError(t, second.cmd.Process.Kill())
	_ = second.cmd.Wait()
	second = start(t, "engine", "-port", fmt.Sprint(b))
	second.line()
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d: restarted", b), router.line())
	router.until(system+"What is paging, in one sentence? Thanks.", fmt.Sprintf("to 127.0.0.1:%d, which has 48 of 80 tokens", a))
	first.say("-" + system + "What is a KV cache?")
	require.Equal(t, "removed 3 blocks", first.line())
	router.until(system+"What is paging?", "to any engine: none has a block of these 55 tokens")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"route", "-nothing"}, {"route", "-engines", "10.0.0.7"}, {"route", "-engines", "127.0.0.1:5557, 127.0.0.1:5657x"}} {
		require.Error(t, run(context.Background(), args, strings.NewReader(""), new(bytes.Buffer)))
	}
}

// An event that is refused does not take the rest of its batch away; a wrong address is reported.
func TestFollow(t *testing.T) {
	p, err := pubsub.Listen(pubsub.PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: "kv@a@m"})
	require.NoError(t, err)
	defer p.Close()
	events, replay := p.Endpoints()
	prompt := make([]uint32, blockSize)
	require.NoError(t, p.Publish(
		&kvevents.Stored{Hashes: []kvevents.Hash{{Number: 1}}, Tokens: make([]uint32, 8), BlockSize: 8, Medium: "GPU"},
		&kvevents.Stored{Hashes: []kvevents.Hash{{Number: 2}}, Tokens: prompt, BlockSize: blockSize, Medium: "GPU"}))
	caches, err := index.New(index.Options{BlockSize: blockSize})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(ctx, caches, "a", pubsub.SubscriberOptions{Events: events, Replay: replay}, &out)
	}()
	require.Eventually(t, func() bool { return len(caches.Find(nil, index.Query{Tokens: prompt})) == 1 }, time.Minute, time.Millisecond)
	cancel()
	<-done
	require.Contains(t, out.String(), "a: kvevents/index: an engine's block of 8 tokens")

	out.Reset()
	follow(context.Background(), caches, "b", pubsub.SubscriberOptions{Events: "tcp://nonsense"}, &out)
	require.Contains(t, out.String(), "b: ")
}
