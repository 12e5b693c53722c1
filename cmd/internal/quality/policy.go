package quality

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

// Policy is an eviction policy, by the name that a user gives it.
type Policy struct {
	Name, About string
	// Budget is the tokens that a layer may have, on average over the layers.
	Budget int
	make   func(budget int) evict.Policy // nil: keeps everything
	fresh  bool                          // scores are of the queries since the last eviction
	layers bool                          // layers have different budgets
}

// Evicts reports whether the policy ever drops a token.
func (p Policy) Evicts() bool { return p.make != nil }

// scored reports whether the policy looks at attention scores.
func (p Policy) scored() bool { return p.Evicts() && p.make(max(p.Budget, 1)).NeedsScores() }

// Under is the policy with a budget, where it can have one.
func (p Policy) Under(budget int) Policy {
	if p.Evicts() {
		p.Budget = budget
	}
	return p
}

// Everything is the policy that evicts nothing.
const Everything = "none"

const sinks = 4 // of every policy: the paper on attention sinks found four to be enough

var policies = []Policy{
	{Name: Everything, About: "keeps all tokens"},
	{Name: "recency", About: "the newest tokens", make: func(int) evict.Policy { return evict.Recency{} }},
	{Name: "sliding", About: "4 sinks and the newest tokens (StreamingLLM)", make: func(b int) evict.Policy {
		return evict.SlidingWindow{Sinks: min(sinks, b/2), Window: b - min(sinks, b/2)}
	}},
	{Name: "h2o", About: "4 sinks, heavy hitters, half of the budget for the newest", make: func(b int) evict.Policy {
		return evict.H2O{Sinks: min(sinks, b/2)}
	}},
	{Name: "snapkv", About: "what the queries since the last eviction looked at", fresh: true, make: snapKV},
	{Name: "pyramidkv", About: "snapkv with budgets that fall from layer to layer", fresh: true, layers: true,
		make: func(b int) evict.Policy { return evict.PyramidKV{SnapKV: snapKV(b).(evict.SnapKV), Beta: 2} }},
}

func snapKV(b int) evict.Policy {
	return evict.SnapKV{Sinks: min(sinks, b/2), Window: b / 4, Kernel: 5}
}

// Policies is every policy there is, Everything first.
func Policies() []Policy { return append([]Policy(nil), policies...) }

// PolicyNames lists their names for a message.
func PolicyNames() string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

// ParsePolicy is the policy of a name.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range policies {
		if p.Name == name {
			return p, nil
		}
	}
	return Policy{}, fmt.Errorf("policy %s: accepts %s", name, PolicyNames())
}
