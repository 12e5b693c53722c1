// libzmq is at the other end, by Python, as it is in vLLM and in routers.

package pubsub

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

func python(t *testing.T, program string, args ...string) (lines func() string, in func(string)) {
	t.Helper()
	path := "/usr/bin/python3"
	if exec.Command(path, "-c", "import zmq").Run() != nil {
		t.Skip("without /usr/bin/python3 and its zmq, of Debian's package python3-zmq")
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-c", program}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Wait() })
	scanner := bufio.NewScanner(out)
	return func() string {
			if !scanner.Scan() {
				cmd.Wait()
				t.Fatal("python ended: ", stderr.String())
			}
			return scanner.Text()
		}, func(line string) {
			_, err := fmt.Fprintln(stdin, line)
			require.NoError(t, err)
		}
}

// pythonSubscriber is what vLLM's example does: live messages from SUB, and what is missing from a socket of its own.
const pythonSubscriber = `
import sys, zmq, hashlib
events, replay, kind = sys.argv[1:]
ctx = zmq.Context()
sub, ask = ctx.socket(zmq.SUB), ctx.socket(zmq.DEALER)
for s in sub, ask:
    s.setsockopt(zmq.RCVTIMEO, 60000)
sub.setsockopt_string(zmq.SUBSCRIBE, 'kv@')
sub.connect(events)
ask.connect(replay)
def say(source, topic, seq, payload):
    print(source, topic.decode(), int.from_bytes(seq, 'big'), hashlib.sha256(payload).hexdigest(), flush=True)
def replay_from(start):
    last = start - 1
    ask.send_multipart([b'', start.to_bytes(8, 'big')])
    while True:
        m = ask.recv_multipart()
        assert m[0] == b'' and len(m) == {'vllm': 4, 'sglang': 3}[kind], m
        topic, seq, payload = (m[1] if len(m) == 4 else b'-'), m[-2], m[-1]
        if seq == (-1).to_bytes(8, 'big', signed=True):
            assert payload == b'' and topic in (b'', b'-')
            return last
        last = int.from_bytes(seq, 'big')
        say('replay', topic, seq, payload)
topic, seq, payload = sub.recv_multipart()
at = int.from_bytes(seq, 'big')
last = replay_from(0)
while True:
    if at > last + 1:
        last = replay_from(last + 1)
    if at < last:
        pass
    if at > last or at == 0:
        say('live', topic, seq, payload)
        last = at
    topic, seq, payload = sub.recv_multipart()
    at = int.from_bytes(seq, 'big')
    if at < last and at == 0: last = -1
`

// A subscriber over libzmq follows a Publisher from its first batch, and into the next epoch.
func TestPythonSubscriber(t *testing.T) {
	for form, kind := range []string{"vllm", "vllm", "sglang", "sglang"} {
		if form == 1 { // older vLLM, as SGLang
			kind = "sglang"
		}
		o := PublisherOptions{Topic: "kv@a@m", LogBatches: 100}
		o.Form = kvevents.Form(form)
		p := listen(t, o)
		for n := range uint64(50) {
			require.NoError(t, p.Publish(block(n+1, n)))
		}
		events, replay := p.Endpoints()
		lines, _ := python(t, pythonSubscriber, events, replay, kind)
		require.Eventually(t, func() bool { // Python waits for a live message first
			p.mu.Lock()
			defer p.mu.Unlock()
			for peer := range p.peers {
				peer.subscription.mu.Lock()
				subscribed := peer.total > 0
				peer.subscription.mu.Unlock()
				if subscribed {
					return true
				}
			}
			return false
		}, time.Minute, time.Millisecond)
		sums := map[uint64][]string{}
		record := func() {
			for i, payload := range p.log.payloads {
				sum := sha256.Sum256(payload)
				if hash := hex.EncodeToString(sum[:]); len(sums[uint64(i)]) == 0 || sums[uint64(i)][len(sums[uint64(i)])-1] != hash {
					sums[uint64(i)] = append(sums[uint64(i)], hash)
				}
			}
		}
		record()
		follow := func(want uint64, epoch int) {
			t.Helper()
			for n := want; ; n++ {
				var source, topic, hash string
				var sequence uint64
				_, err := fmt.Sscan(lines(), &source, &topic, &sequence, &hash)
				require.NoError(t, err)
				require.Equal(t, n, sequence)
				require.Equal(t, map[bool]string{true: "-", false: "kv@a@m"}[source == "replay" && kind == "sglang"], topic)
				require.Equal(t, sums[n][epoch], hash)
				if n+1 == p.Stats().Sequence {
					return
				}
			}
		}
		require.NoError(t, p.Publish(block(98, 0)))
		record()
		follow(0, 0)
		for p.Stats().Epoch == 1 {
			require.NoError(t, p.Publish(block(7, 6)))
			if p.Stats().Epoch == 1 {
				record()
				follow(p.Stats().Sequence-1, 0)
			}
		}
		record()
		follow(0, 1)
		require.NoError(t, p.Close())
	}
}

// pythonPublisher is vLLM's publisher; lines of input say what it does.
const pythonPublisher = `
import os, sys, zmq, struct, collections
topics = sys.argv[1] == 'vllm'
ctx = zmq.Context()
pub, router = ctx.socket(zmq.PUB), ctx.socket(zmq.ROUTER)
pub.bind('tcp://127.0.0.1:*' if len(sys.argv) < 3 else sys.argv[2])
router.bind('tcp://127.0.0.1:*' if len(sys.argv) < 3 else sys.argv[3])
for s in pub, router:
    print(s.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip('\0'), flush=True)
buffer = collections.deque(maxlen=10)
seq = 0
poller = zmq.Poller()
poller.register(router, zmq.POLLIN)
poller.register(0, zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if router in ready:
        client, empty, start = router.recv_multipart()
        for n, payload in buffer:
            if n >= int.from_bytes(start, 'big'):
                router.send_multipart([client, b''] + ([b'kv@p'] if topics else []) + [n.to_bytes(8, 'big'), payload])
        router.send_multipart([client, b''] + ([b''] if topics else []) + [b'\xff' * 8, b''])
    if 0 in ready:
        lines = os.read(0, 4096).split()
        if not lines: break
        for line in lines:
            payload = b'\x93\xcb' + struct.pack('>d', seq) + b'\x90\x00'
            if line == b'send':
                pub.send_multipart([b'kv@p', seq.to_bytes(8, 'big'), payload])
            buffer.append((seq, payload))
            seq += 1
`

func TestPythonPublisher(t *testing.T) {
	for _, kind := range []string{"vllm", "sglang"} {
		lines, in := python(t, pythonPublisher, kind)
		o := SubscriberOptions{Events: lines(), Replay: lines(), Topic: "kv@"}
		for range 3 {
			in("send")
		}
		s := follow(t, o)
		require.Equal(t, "joined 0", next(t, s))
		require.Equal(t, "1", next(t, s))
		require.Equal(t, "2", next(t, s))
		in("send")
		require.Equal(t, "3", next(t, s))
		in("drop")
		in("send")
		require.Equal(t, "4", next(t, s))
		require.Equal(t, "5", next(t, s))
		in("drop")
		require.Equal(t, "6", next(t, s))
		for range 12 { // more than it keeps
			in("drop")
		}
		in("send")
		require.Equal(t, "lost 10", next(t, s))
		for n := 11; n < 20; n++ {
			require.Equal(t, fmt.Sprint(n), next(t, s))
		}
		in("")
		require.NoError(t, s.Close())
	}
}
