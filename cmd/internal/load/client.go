package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Limits of what a server sends, so that one that lies takes no memory.
const (
	maxHeader = 64 << 10
	maxReply  = 1 << 20 // bytes of an answer that is no stream
	drainTime = time.Second
	drainSize = 4 << 10
)

// Client is a server with OpenAI's HTTP interface. It is safe for concurrent use once its fields are set.
type Client struct {
	Model     string
	Key       string // "": none is sent
	IgnoreEOS bool   // asks for answers of full length, as some servers allow

	base string
	http http.Client
}

// NewClient is a client of the server at a URL such as "http://127.0.0.1:8080".
func NewClient(server string) (*Client, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("accepts a URL such as http://127.0.0.1:8080")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("accepts no user, query or fragment in the URL")
	}
	base := strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/v1")
	c := &Client{base: base}
	c.http = http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConns:           maxInFlight,
			MaxIdleConnsPerHost:    maxInFlight,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		},
		// A redirect could lead the key elsewhere, and would be measured as a part of the server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Exposed reports whether others on the way can read what is sent.
func (c *Client) Exposed() bool {
	u, err := url.Parse(c.base)
	if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" {
		return err != nil
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// Base is the server's URL, without /v1.
func (c *Client) Base() string { return c.base }

// Close ends connections that are kept for further requests.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// FirstModel is the first model that the server lists.
func (c *Client) FirstModel(ctx context.Context) (string, error) {
	name, err := c.firstModel(ctx)
	if err != nil && ctx.Err() != context.Canceled {
		err = c.failure(err)
	}
	return name, err
}

func (c *Client) firstModel(ctx context.Context) (string, error) {
	reply, err := c.send(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return "", err
	}
	var models struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal(text, &models); err != nil {
		return "", ErrRequest{Malformed, fmt.Sprintf("/v1/models: %v", err)}
	}
	if len(models.Data) == 0 || models.Data[0].ID == "" {
		return "", ErrRequest{Malformed, "/v1/models lists no model"}
	}
	return models.Data[0].ID, nil
}

// send sends a request; a status other than 200 is an error.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("User-Agent", "ferrumkv-load")
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "text/event-stream")
	}
	if c.Key != "" {
		q.Header.Set("Authorization", "Bearer "+c.Key)
	}
	reply, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode != http.StatusOK {
		defer reply.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(reply.Body, drainSize)) // an error is known already
		return nil, ErrRequest{statusKind(reply.StatusCode), errorText(text)}
	}
	return reply, nil
}

// ask sends a question and reads the answer to its end. failure says what an error is.
func (c *Client) ask(ctx context.Context, q question) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reply, err := c.send(ctx, http.MethodPost, q.path, q.body)
	if err != nil {
		return answer{}, err
	}
	defer reply.Body.Close()
	if kind, _, err := mime.ParseMediaType(reply.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return answer{}, ErrRequest{ContentType, fmt.Sprintf("%q instead of text/event-stream", reply.Header.Get("Content-Type"))}
	}
	a, err := readAnswer(reply.Body, q.tokens)
	if err == nil { // the connection can be used again once it is read to its end
		slow := time.AfterFunc(drainTime, cancel)
		_, _ = io.CopyN(io.Discard, reply.Body, drainSize)
		slow.Stop()
	}
	return a, err
}
