// Endpoints are written as ZeroMQ writes them, and are TCP or Unix sockets.

package zmtp

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
)

// address is what package net calls an endpoint.
func address(endpoint string, listen bool) (network, addr string, err error) {
	scheme, rest, _ := strings.Cut(endpoint, "://")
	switch scheme {
	case "ipc":
		if rest == "" || rest == "*" {
			return "", "", ErrEndpoint{endpoint, "it has no path; write ipc:///path"}
		}
		return "unix", rest, nil
	case "tcp":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || port == "" {
			return "", "", ErrEndpoint{endpoint, "it must be tcp://host:port"}
		}
		switch {
		case listen && host == "*":
			host = ""
		case host == "*", !listen && host == "":
			return "", "", ErrEndpoint{endpoint, "it names no host to connect to"}
		}
		if listen && port == "*" {
			port = "0"
		}
		return "tcp", net.JoinHostPort(host, port), nil
	}
	return "", "", ErrEndpoint{endpoint, "it must be tcp://host:port or ipc:///path"}
}

// Listen binds an endpoint: tcp://*:port is all addresses of the machine. The socket file of a process that ended is replaced.
func Listen(endpoint string) (net.Listener, error) {
	network, addr, err := address(endpoint, true)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, addr)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) && isSocket(addr) { // connections to other files are refused, too
		if c, dialed := net.Dial(network, addr); errors.Is(dialed, syscall.ECONNREFUSED) && os.Remove(addr) == nil {
			return net.Listen(network, addr)
		} else if dialed == nil {
			c.Close()
		}
	}
	return l, err
}

func isSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Endpoint is that of a listener, with the port that it has.
func Endpoint(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "ipc://" + l.Addr().String()
	}
	return "tcp://" + l.Addr().String()
}

// Dial connects to an endpoint and shakes hands. It ends with the context.
func Dial(ctx context.Context, endpoint string, o Options) (*Conn, error) {
	network, addr, err := address(endpoint, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.filled().Handshake)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := Handshake(raw, o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		if ctx.Err() == context.DeadlineExceeded || errors.Is(err, os.ErrDeadlineExceeded) { // whichever of the two is first
			err = broken("does not finish the handshake within %v", o.filled().Handshake)
		}
		return nil, err
	}
	return c, nil
}

// Check returns what is wrong with an endpoint to connect to.
func Check(endpoint string) error {
	_, _, err := address(endpoint, false)
	return err
}
