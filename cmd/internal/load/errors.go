package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Kind is why a request failed. An HTTP status other than 200 is "http_" and the number.
type Kind string

const (
	Refused     Kind = "refused"      // nothing listens there
	Connection  Kind = "connection"   // no connection, or it ended before an answer began
	Timeout     Kind = "timeout"      // no whole answer in time
	ContentType Kind = "content_type" // the answer is no stream of events
	Broken      Kind = "broken"       // the stream ended before the answer did
	Malformed   Kind = "malformed"    // the stream has what is no JSON object of such an answer
	Reported    Kind = "error_event"  // the stream has an error, by the server's account
	TooLarge    Kind = "too_large"    // a line or a stream that no answer has
	Unfinished  Kind = "unfinished"   // the run ended before the answer did
)

// ErrRequest is a request that failed. errors.Is(err, ErrRequest{}) matches any.
type ErrRequest struct {
	Kind   Kind
	Detail string // what the server or the system says
}

func (e ErrRequest) Error() string {
	if e.Detail == "" {
		return string(e.Kind)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Detail)
}

// Is matches the same error and the zero value.
func (e ErrRequest) Is(target error) bool {
	t, ok := target.(ErrRequest)
	return ok && (t == e || t == ErrRequest{})
}

// statusKind is the kind of an HTTP status.
func statusKind(code int) Kind { return Kind(fmt.Sprintf("http_%d", code)) }

// maxDetail is how many bytes of what a server says are kept.
const maxDetail = 200

// failure is an error of a request as an ErrRequest, whose detail does not have the key even where a server repeats it.
func (c *Client) failure(err error) ErrRequest {
	var e ErrRequest
	var failed *url.Error
	var timeout net.Error
	if !errors.As(err, &e) {
		if errors.As(err, &failed) {
			err = failed.Err // the URL is known
		}
		e = ErrRequest{Connection, err.Error()}
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
			e = ErrRequest{Kind: Timeout}
		case errors.Is(err, syscall.ECONNREFUSED):
			e.Kind = Refused
		}
	}
	if c.Key != "" {
		e.Detail = strings.ReplaceAll(e.Detail, c.Key, "…")
	}
	if len(e.Detail) > maxDetail {
		e.Detail = strings.ToValidUTF8(e.Detail[:maxDetail], "") + "…"
	}
	return e
}
