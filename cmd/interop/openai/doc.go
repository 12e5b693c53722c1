// Package openai has tests of 'ferrumkv serve' with OpenAI's own client, openai-go, in a module of its own, so that nobody
// downloads that unasked: make test-openai.
package openai
