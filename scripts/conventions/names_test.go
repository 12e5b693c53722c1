package conventions

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exported is what docs/api.txt lists: "kvcache.Pool", "kvcache.Pool.Open", and without their
// packages "Pool.Open".
type exported struct {
	packages map[string]bool
	types    map[string]bool // without packages
	names    map[string]bool
	embeds   map[string][]string // types in types, both without packages
}

func readExported(golden string) exported {
	e := exported{packages: map[string]bool{}, types: map[string]bool{}, names: map[string]bool{}, embeds: map[string][]string{}}
	line := regexp.MustCompile(`(?m)^pkg (\S+), (.*)$`)
	top := regexp.MustCompile(`^(const|var|func|type) (\w+)`)
	method := regexp.MustCompile(`^method \(\*?(\w+)(?:\[\w+\])?\) (\w+)`)
	member := regexp.MustCompile(`^type (\w+)(?:\[[^\]]*\])? (?:struct|interface), (embedded )?(\S*?)(\w+)(?:[( \[]|$)`)
	for _, m := range line.FindAllStringSubmatch(golden, -1) {
		pkg := path.Base(m[1])
		e.packages[pkg] = true
		add := func(typ, name string) {
			e.names[typ+"."+name], e.names[pkg+"."+typ+"."+name] = true, true
		}
		if d := top.FindStringSubmatch(m[2]); d != nil {
			e.names[pkg+"."+d[2]] = true
			if d[1] == "type" {
				e.types[d[2]] = true
			}
		}
		if d := method.FindStringSubmatch(m[2]); d != nil {
			add(d[1], d[2])
		}
		if d := member.FindStringSubmatch(m[2]); d != nil {
			add(d[1], d[4])
			if d[2] != "" {
				e.embeds[d[1]] = append(e.embeds[d[1]], d[4])
			}
		}
	}
	return e
}

// has reports whether there is a name, an embedded type's among them.
func (e exported) has(name string) bool {
	if e.names[name] {
		return true
	}
	parts := strings.Split(name, ".")
	for _, embedded := range e.embeds[parts[max(len(parts)-2, 0)]] {
		if e.has(embedded + "." + parts[len(parts)-1]) {
			return true
		}
	}
	return false
}

var (
	qualified = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	ofType    = regexp.MustCompile(`(^|[^\w.])([A-Z]\w*)\.([A-Z]\w*)`)
)

// unknown are the names in a document that look like ours and are none.
func (e exported) unknown(document string) (found []string) {
	for _, m := range qualified.FindAllStringSubmatch(document, -1) {
		if !e.packages[m[1]] {
			continue
		}
		if name := m[1] + "." + m[2]; !e.has(name) {
			found = append(found, name)
		} else if m[3] != "" && !e.has(name+"."+m[3]) {
			found = append(found, m[0])
		}
	}
	for _, span := range codeSpan.FindAllString(fence.ReplaceAllString(document, ""), -1) {
		for _, m := range ofType.FindAllStringSubmatch(span, -1) {
			if name := m[2] + "." + m[3]; e.types[m[2]] && !e.has(name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// Documents name no function, type, method or field that is not there (any more). The change log
// tells of old ones.
func TestNamesInDocuments(t *testing.T) {
	golden, err := os.ReadFile("../../docs/api.txt")
	require.NoError(t, err)
	api := readExported(string(golden))
	pages := 0
	documents(t, func(name, text string) {
		if name != "CHANGELOG.md" {
			require.Empty(t, api.unknown(text), name)
			pages++
		}
	}, ".md")
	require.Greater(t, pages, 20)
}

func TestUnknownNamesAreFound(t *testing.T) {
	api := readExported("pkg m/kv, type Pool[B any] struct\npkg m/kv, method (*Pool[B]) Open(string) error\npkg m/kv, type Options struct\n" +
		"pkg m/kv, type Options struct, embedded m/kv.Scope\npkg m/kv, type Scope struct\npkg m/kv, type Scope struct, Salt string\n" +
		"pkg m/kv, func New() *Pool\npkg m/kv, const Max int = 3\npkg m/kv, type Dev interface { Free() }\npkg m/kv, type Dev interface, Free() error")
	for document, want := range map[string][]string{
		"kv.New, kv.Pool, `kv.Pool.Open`, kv.Max and `Pool.Open`, `Options.Salt`, kv.Options.Salt, `Dev.Free`": nil,
		"other.Name and `Other.Name`, Pool.Shut in prose":                                                      nil,
		"kv.Old":                       {"kv.Old"},
		"kv.Pool.Shut":                 {"kv.Pool.Shut"},
		"`Pool.Shut()`":                {"Pool.Shut"},
		"`Options.Pepper`":             {"Options.Pepper"},
		"```go\nx := kv.Gone()\n```\n": {"kv.Gone"},
	} {
		require.Equal(t, want, api.unknown(document), document)
	}
}
