package quality

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Scene is a way to use a cache, by the name that a user gives it. In the zero value each text
// is read once, from its beginning.
type Scene struct {
	Name, About string
	// Context is the tokens that a query sees, or that a sequence has room for; 0: all.
	Context int
	bounded bool // has a Context
	half    bool // what is after the first half of a text is predicted
	reuses  bool // the first half is found
	shifts  bool // Context is room, else a window
}

// LeastContext is the fewest tokens of a Scene's Context.
const LeastContext = 2 * sinks

var scenes = []Scene{
	{Name: "afresh", About: "predicts the second half of a text; what to compare reuse with", half: true},
	{Name: "reuse", About: "the same; of the first half, keys and values are found that another sequence left", half: true, reuses: true},
	{Name: "window", About: "a token sees itself and those before it, up to the context in all", bounded: true},
	{Name: "shift", About: "when the context is full, the older half after 4 sinks is dropped and the rest moves up", bounded: true, shifts: true},
}

// Scenes is every scene there is but the zero value.
func Scenes() []Scene { return append([]Scene(nil), scenes...) }

// SceneNames lists their names for a message.
func SceneNames() string {
	names := make([]string, len(scenes))
	for i, s := range scenes {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

// ParseScene is the scene of a name.
func ParseScene(name string) (Scene, error) {
	for _, s := range scenes {
		if s.Name == name {
			return s, nil
		}
	}
	return Scene{}, fmt.Errorf("scene %s: accepts %s", name, SceneNames())
}

// Bounded reports whether the scene has a Context.
func (s Scene) Bounded() bool { return s.bounded }

// Within is the scene with a context, where it has one.
func (s Scene) Within(context int) Scene {
	if s.bounded {
		s.Context = context
	}
	return s
}

// Under is an error where the scene cannot be combined with a policy.
func (s Scene) Under(p Policy) error {
	if s.Name != "" && p.Evicts() {
		return fmt.Errorf("scene %s under policy %s: scenes keep everything", s.Name, p.Name)
	}
	return nil
}

// Refers reports whether a format under a policy is what others are compared with in the scene.
func (s Scene) Refers(f Format, p Policy) bool {
	return f.Name == Reference && !p.Evicts() && !s.reuses
}

// afresh is the scene with nothing reused.
func (s Scene) afresh() Scene {
	s.reuses = false
	return s
}

// start is the first token of a text that another one is predicted from. What is found ends
// there, in every format: on a border of blocks.
func (s Scene) start(tokens int) int {
	if !s.half {
		return 0
	}
	return tokens / 2 / kiviBlock * kiviBlock
}

// least is the tokens of the shortest text in which the scene happens.
func (s Scene) least() int {
	switch {
	case s.half:
		return 2 * kiviBlock
	case s.bounded: // the last token is predicted, not read
		return s.Context + 2
	}
	return 2
}

// configure makes the cache of one text, with that many layers, one for the scene.
func (s Scene) configure(cfg *kvcache.Config, layers int) {
	if s.reuses {
		cfg.Memory.Prefix = prefix.Adaptive
	}
	switch {
	case s.shifts:
		cfg.Memory.Capacity = s.Context // Blocks are for all of the text: while tokens move, some are there twice
	case s.bounded:
		all := config.Group{Kind: group.Window, Window: s.Context}
		for l := range layers {
			all.Layers = append(all.Layers, l)
		}
		cfg.Model.Groups, cfg.Memory.Rollback = []config.Group{all}, -1
	}
}
