package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// panel is a mask in the picture of docs/masks.md: rows are queries, columns keys.
type panel struct {
	name, note string
	keys       int
	queries    []viewer
	drafts     int // keys from here on are drafts; 0: none
	masks      []maskSpec
}

// panels are the masks that the document explains.
func panels() []panel {
	const n = 12
	views := func(end func(i int) int) (out []viewer) {
		for i := range n {
			out = append(out, viewer{pos: i, end: end(i)})
		}
		return out
	}
	causal := views(func(i int) int { return i + 1 })
	whole := views(func(int) int { return n })
	image := views(func(i int) int {
		if i >= 4 && i < 9 {
			return 9
		}
		return i + 1
	})
	tree := small("tree", sequence{7, 11})
	tree.look(0, func(i int) view { return view{4 + i, 5 + i} })
	tree.grow(0, -1, 0, 0, 1, 1, 2, 5)
	var drafts, other, again []viewer
	for i := range 7 {
		drafts = append(drafts, tree.viewer(0, 0, i))
	}
	for i := range 5 {
		other = append(other, viewer{pos: i, end: n})
	}
	for i := range 3 {
		again = append(again, viewer{pos: 5 + i, end: 6 + i})
	}
	parts := []maskSpec{{part: backend.OlderKeys, recent: 3}, {part: backend.ResidualKeys, recent: 3}}
	return []panel{
		{"causal", "the zero Mask", n, causal, 0, []maskSpec{{}}},
		{"window", "Window 4, SinkTokens 2", n, causal, 0, []maskSpec{{window: 4, sinkTokens: 2}}},
		{"chunks", "Chunk 4", n, causal, 0, []maskSpec{{chunk: 4}}},
		{"parts", "Residual 3, blocks of 2", n, causal, 0, parts},
		{"non-causal", "NonCausal", n, whole, 0, []maskSpec{{}}},
		{"window both ways", "NonCausal, Window 3", n, whole, 0, []maskSpec{{window: 3}}},
		{"an image", "Views: ends at its end", n, image, 0, []maskSpec{{}}},
		{"tree of drafts", "Tree, depths in Views", 11, drafts, 4, []maskSpec{{}}},
		{"cross attention", "Views: ends at the context", n, other, 0, []maskSpec{{}}},
		{"nothing appended", "Views: the places asked for", n, again, 0, []maskSpec{{}}},
	}
}

// picture is the panels, as the oracle has them.
func picture() string {
	const cell, wide, high, columns = 12, 196, 226, 4
	all := panels()
	rows := (len(all) + columns - 1) / columns
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<title>Which keys each query sees: %s. A row is a query, a column a key.</title>
<style>
text{fill:#1f2328}.s{fill:#59636e;font-size:12px}.f{fill:#2f6fab}.w{fill:#b07a1c}.t{fill:#4d8a3a}.n{fill:none;stroke:#9aa4ae}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9aa4ae}.f{fill:#79b8f3}.w{fill:#e3b35c}.t{fill:#8fce7c}.n{stroke:#6e7781}}
</style>
`, 20+columns*wide, 10+rows*high, names(all))
	for i, p := range all {
		fmt.Fprintf(&b, "<g transform=\"translate(%d,%d)\"><text y=\"16\" font-size=\"15\">%s</text><text y=\"34\" class=\"s\">%s</text>\n",
			20+i%columns*wide, 10+i/columns*high, p.name, p.note)
		paths := map[string]string{}
		for row, q := range p.queries {
			for key := range p.keys {
				at := fmt.Sprintf("M%d %dh10v10h-10z", key*cell+1, 44+row*cell+1)
				for j, m := range p.masks {
					v := m.visibility(2)
					switch {
					case !v.sees(q, key):
					case p.drafts > 0 && key >= p.drafts:
						paths["t"] += at
					default:
						paths[[]string{"f", "w"}[j]] += at
					}
				}
			}
		}
		for _, class := range []string{"f", "w", "t"} {
			if paths[class] != "" {
				fmt.Fprintf(&b, "<path class=%q d=%q/>\n", class, paths[class])
			}
		}
		fmt.Fprintf(&b, "<rect class=\"n\" x=\"-1\" y=\"43\" width=\"%d\" height=\"%d\"/></g>\n", p.keys*cell+2, len(p.queries)*cell+2)
	}
	return b.String() + "</svg>\n"
}

func names(all []panel) string {
	var out []string
	for _, p := range all {
		out = append(out, p.name)
	}
	return strings.Join(out, ", ")
}

// The picture of docs/masks.md is what the oracle sees.
func TestPictureOfMasks(t *testing.T) {
	const file = "../../docs/masks.svg"
	want := picture()
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		right := filepath.Join(os.TempDir(), "masks.svg")
		require.NoError(t, os.WriteFile(right, []byte(want), 0o644))
		require.Fail(t, "stale picture", "docs/masks.svg is not what the masks are; the right one is %s", right)
	}
}
