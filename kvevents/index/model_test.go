package index_test

import (
	"fmt"
	"sort"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
)

// model has llm-d's rules in the plainest form: of each owner, medium and group the number of times that a block is stored, and of each block the
// text of the whole prompt up to its end. It has no hashes of tokens and no bounds.
type model struct {
	size    int // of a block of the index
	weights map[string]float64
	owners  map[string]*modelOwner
}

type modelOwner struct {
	counts map[modelPlace]int
	texts  map[uint64][]string // of each block of the engine the prompts up to the end of each of its blocks of the index
	kinds  map[int]string
}

type modelPlace struct {
	hash   uint64
	medium string
	group  int
}

func newModel(size int) *model {
	return &model{size, map[string]float64{"gpu": 1, "cpu": 0.8}, map[string]*modelOwner{}}
}

func full(kind string) bool {
	return kind == "" || kind == "full_attention" || kind == "mla_attention" || kind == "sink_full_attention"
}

func mediumOf(name string) string {
	if name == "" {
		return "gpu"
	}
	return strings.ToLower(name)
}

// step is what a block of the index adds to the text of a prompt.
func step(text string, extras []kvevents.Key, lora, salt string, tokens []uint32) string {
	var b strings.Builder
	b.WriteString(text + "|")
	named := false
	for _, k := range extras {
		if k.Raw != nil {
			fmt.Fprintf(&b, "raw %x,", k.Raw)
		} else if k.Text == lora && !named {
			named = true
		} else {
			fmt.Fprintf(&b, "text %q,", k.Text)
		}
	}
	if salt != "" {
		fmt.Fprintf(&b, "text %q,", salt)
	}
	fmt.Fprint(&b, tokens)
	return b.String()
}

func (m *model) apply(name string, e kvevents.Event) {
	o := m.owners[name]
	if o == nil {
		o = &modelOwner{map[modelPlace]int{}, map[uint64][]string{}, map[int]string{}}
		m.owners[name] = o
	}
	switch e := e.(type) {
	case *kvevents.Stored:
		m.store(o, e)
	case *kvevents.Removed:
		group := -1
		if e.HasGroup {
			group = e.Group
		}
		for _, h := range e.Hashes {
			at := modelPlace{h.Number, mediumOf(e.Medium), group}
			if o.counts[at] > 0 {
				o.counts[at]--
			}
			if !o.has(h.Number) {
				delete(o.texts, h.Number)
			}
		}
	case *kvevents.Cleared:
		o.counts, o.texts = map[modelPlace]int{}, map[uint64][]string{} // not the kinds
	}
}

func (o *modelOwner) has(hash uint64) bool {
	for at, n := range o.counts {
		if at.hash == hash && n > 0 {
			return true
		}
	}
	return false
}

func (m *model) store(o *modelOwner, e *kvevents.Stored) {
	group, kind := -1, e.Kind
	if e.HasGroup {
		if group = e.Group; kind != "" {
			o.kinds[group] = kind
		}
		kind = o.kinds[group]
	}
	if !full(kind) {
		return
	}
	if len(e.Tokens) == 0 {
		for _, h := range e.Hashes {
			if o.has(h.Number) {
				o.counts[modelPlace{h.Number, mediumOf(e.Medium), group}]++
			}
		}
		return
	}
	if e.BlockSize < 1 || e.BlockSize%m.size != 0 || len(e.Tokens) != len(e.Hashes)*e.BlockSize {
		return
	}
	text := "lora " + e.LoRAName
	if e.HasParent && e.Parent.Number != 0 {
		if !o.has(e.Parent.Number) {
			return
		}
		texts := o.texts[e.Parent.Number]
		text = texts[len(texts)-1]
	}
	for i, h := range e.Hashes {
		var texts []string
		for j := 0; j < e.BlockSize; j += m.size {
			var extras []kvevents.Key
			if j == 0 && i < len(e.ExtraKeys) {
				extras = e.ExtraKeys[i]
			}
			salt := ""
			if i == 0 && j == 0 && (!e.HasParent || e.Parent.Number == 0) {
				salt = e.CacheSalt
			}
			text = step(text, extras, e.LoRAName, salt, e.Tokens[i*e.BlockSize+j:i*e.BlockSize+j+m.size])
			texts = append(texts, text)
		}
		if !o.has(h.Number) {
			o.texts[h.Number] = texts
		}
		o.counts[modelPlace{h.Number, mediumOf(e.Medium), group}]++
	}
}

// weight is the best weight of a medium on which an owner has a text; false: it has it nowhere.
func (m *model) weight(o *modelOwner, text string) (best float64, has bool) {
	for hash, texts := range o.texts {
		for _, t := range texts {
			if t != text {
				continue
			}
			for at, n := range o.counts {
				if at.hash == hash && n > 0 {
					w, known := m.weights[at.medium]
					if !known {
						w = 1
					}
					best, has = max(best, w), true
				}
			}
		}
	}
	return best, has
}

func (m *model) find(q index.Query) (found []index.Match) {
	for name, o := range m.owners {
		text, match := "lora "+q.LoRAName, index.Match{Owner: name}
		for i := 0; (i+1)*m.size <= len(q.Tokens); i++ {
			var extras []kvevents.Key
			if i < len(q.ExtraKeys) {
				extras = q.ExtraKeys[i]
			}
			salt := ""
			if i == 0 {
				salt = q.Salt
			}
			text = step(text, extras, q.LoRAName, salt, q.Tokens[i*m.size:(i+1)*m.size])
			w, has := m.weight(o, text)
			if !has {
				break
			}
			match.Tokens, match.Score = match.Tokens+m.size, match.Score+w
		}
		if match.Tokens > 0 {
			found = append(found, match)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		if found[i].Score != found[j].Score {
			return found[i].Score > found[j].Score
		}
		return found[i].Owner < found[j].Owner
	})
	return found
}
