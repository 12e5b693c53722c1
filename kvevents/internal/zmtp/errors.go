// What is wrong with a peer or an endpoint.

package zmtp

import "fmt"

// ErrProtocol is a peer that breaks the protocol or a limit. errors.Is(err, ErrProtocol{}) matches any.
type ErrProtocol struct{ What string }

func (e ErrProtocol) Error() string { return "zmtp: the peer " + e.What }

// Is matches the same error and the zero value.
func (e ErrProtocol) Is(target error) bool {
	t, ok := target.(ErrProtocol)
	return ok && (t == e || t == ErrProtocol{})
}

// ErrPeer is an ERROR command of the peer.
type ErrPeer struct{ Reason string }

func (e ErrPeer) Error() string {
	return fmt.Sprintf("zmtp: the peer closes the connection: %q", e.Reason)
}

// ErrEndpoint is an invalid endpoint.
type ErrEndpoint struct{ Endpoint, What string }

func (e ErrEndpoint) Error() string { return fmt.Sprintf("zmtp: endpoint %q: %s", e.Endpoint, e.What) }

func broken(format string, args ...any) error { return ErrProtocol{fmt.Sprintf(format, args...)} }
