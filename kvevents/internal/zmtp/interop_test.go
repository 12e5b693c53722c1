// libzmq is at the other end, by Python.

package zmtp

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// python runs a program that has zmq and a context, and returns its first line, which is an endpoint where it binds one.
func python(t *testing.T, program string, args ...string) (line string, wait func() string) {
	t.Helper()
	path := "/usr/bin/python3"
	if exec.Command(path, "-c", "import zmq").Run() != nil {
		t.Skip("without /usr/bin/python3 and its zmq, of Debian's package python3-zmq")
	}
	head := `
import sys, zmq
ctx = zmq.Context()
def sock(kind, **options):
    s = ctx.socket(kind)
    s.setsockopt(zmq.LINGER, 20000)
    s.setsockopt(zmq.RCVTIMEO, 60000)
    for name, value in options.items():
        s.setsockopt(getattr(zmq, name), value)
    return s
def bound(s, endpoint='tcp://127.0.0.1:*'):
    s.bind(endpoint)
    print(s.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip('\0'), flush=True)
    return s
`
	cmd := exec.CommandContext(t.Context(), path, append([]string{"-c", head + program}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	line, _ = lines.ReadString('\n')
	return strings.TrimSpace(line), func() string {
		var rest strings.Builder
		_, err := lines.WriteTo(&rest)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), stderr.String())
		return rest.String()
	}
}

// accept shakes hands with the first peer of a listener.
func listening(t *testing.T, endpoint string, o Options) (string, func() *Conn) {
	l, err := Listen(endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return Endpoint(l), func() *Conn {
		raw, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { raw.Close() })
		c, err := Handshake(raw, o)
		require.NoError(t, err)
		return c
	}
}

const big = 100_000

func TestOurPub(t *testing.T) {
	for _, kind := range []string{"SUB", "XSUB"} {
		for _, endpoint := range []string{"tcp://127.0.0.1:0", "ipc://" + t.TempDir() + "/" + kind} {
			where, accept := listening(t, endpoint, Options{Type: Pub})
			subscribe := "s.setsockopt(zmq.SUBSCRIBE, b'kv')"
			if kind == "XSUB" {
				subscribe = `s.send(b'\x01kv')`
			}
			_, wait := python(t, fmt.Sprintf(`
s = sock(zmq.%s, HEARTBEAT_IVL=50)
s.connect(sys.argv[1])
%s
print('', flush=True)
print([(len(f), f[:5]) for f in s.recv_multipart()])
print(s.recv_multipart(), flush=True)
`, kind, subscribe), where)
			c := accept()
			require.Equal(t, frames("\x01kv"), read(t, c))
			require.NoError(t, c.WriteMessage([]byte("kv"), nil, make([]byte, big)))
			require.NoError(t, c.WriteMessage([]byte("kv2")))
			ended := make(chan struct{})
			go func() { defer close(ended); c.ReadMessage() }() // which answers heartbeats
			require.Equal(t, "[(2, b'kv'), (0, b''), (100000, b'\\x00\\x00\\x00\\x00\\x00')]\n[b'kv2']\n", wait())
			<-ended
		}
	}
}

func TestOurSub(t *testing.T) {
	for _, kind := range []string{"PUB", "XPUB"} {
		where, wait := python(t, fmt.Sprintf(`
s = bound(sock(zmq.%s, HEARTBEAT_IVL=50))
import time
while not s.poll(0, zmq.POLLIN) and s.type == zmq.XPUB: time.sleep(0.01)
if s.type == zmq.XPUB: print(s.recv(), flush=True)
for n in range(200 if s.type == zmq.XPUB else 6000): # a PUB does not know when there is a subscriber
    s.send_multipart([b'other', b'x'])
    s.send_multipart([b'kv', b'', bytes(%d)])
    time.sleep(0.01)
`, kind, big))
		c, err := Dial(t.Context(), where, Options{Type: Sub})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Subscribe("kv"))
		asked, err := c.Ping()
		require.NoError(t, err)
		require.True(t, asked)
		pongs := 0
		for n := 0; n < 20; {
			m := read(t, c)
			if m == nil {
				pongs++
				continue
			}
			n++
			require.Len(t, m, 3)
			require.Equal(t, "kv", string(m[0]))
			require.Len(t, m[2], big)
		}
		require.Equal(t, 1, pongs)
		c.Close()
		if kind == "XPUB" {
			require.Equal(t, "b'\\x01kv'\n", wait())
		}
	}
}

func TestOurRouter(t *testing.T) {
	for _, kind := range []string{"DEALER", "REQ"} {
		where, accept := listening(t, "tcp://127.0.0.1:0", Options{Type: Router})
		_, wait := python(t, fmt.Sprintf(`
s = sock(zmq.%s, IDENTITY=b'me')
s.connect(sys.argv[1])
s.send_multipart([b'', b'a', b'b'] if s.type == zmq.DEALER else [b'a', b'b'])
print('', flush=True)
m = s.recv_multipart()
print(len(m[-1]), m[:-1])
`, kind), where)
		c := accept()
		require.Equal(t, frames("", "a", "b"), read(t, c))
		require.NoError(t, c.WriteMessage(nil, []byte("t"), make([]byte, big)))
		require.Equal(t, map[string]string{"DEALER": "100000 [b'', b't']\n", "REQ": "100000 [b't']\n"}[kind], wait())
	}
}

func TestOurDealer(t *testing.T) {
	for _, kind := range []string{"ROUTER", "REP"} {
		where, wait := python(t, fmt.Sprintf(`
s = bound(sock(zmq.%s))
m = s.recv_multipart()
print(m[-2:])
s.send_multipart(m[:-1] + [bytes(%d)])
`, kind, big))
		c, err := Dial(t.Context(), where, Options{Type: Dealer, Identity: []byte("me")})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.WriteMessage(nil, []byte("a"), []byte("b")))
		m := read(t, c)
		require.Equal(t, []string{"", "a"}, []string{string(m[0]), string(m[1])})
		require.Len(t, m[2], big)
		require.Equal(t, "[b'a', b'b']\n", wait())
	}
}

// A socket of the wrong type refuses with a reason, on either side.
func TestWrongPeer(t *testing.T) {
	where, _ := python(t, "s = bound(sock(zmq.ROUTER))\ns.recv()")
	_, err := Dial(t.Context(), where, Options{Type: Sub})
	require.ErrorContains(t, err, `a socket of type "ROUTER"`)
}
