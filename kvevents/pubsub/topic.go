// Topics say which engine a batch is of.

package pubsub

import "strings"

// Topic is the topic of an engine: kv@endpoint@model, where endpoint is the address ip:port at which the engine serves.
func Topic(endpoint, model string) string { return "kv@" + endpoint + "@" + model }

// ParseTopic takes a topic apart. It returns false for a topic that Topic does not make: such topics can be anything.
func ParseTopic(topic string) (endpoint, model string, ok bool) {
	rest, ok := strings.CutPrefix(topic, "kv@")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "@")
}
