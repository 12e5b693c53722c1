package conventions

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// maxReadme is what of a first page is read.
const maxReadme = 12 << 10

// A person that opens an issue is led to the place for reports that are not public.
func TestIssuesLeadToPrivateReports(t *testing.T) {
	config, err := os.ReadFile("../../.github/ISSUE_TEMPLATE/config.yml")
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^ +url: (\S+)$`).FindStringSubmatch(string(config))
	require.NotNil(t, m)
	security, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	require.Contains(t, string(security), m[1])
}

func TestReadmeIsShort(t *testing.T) {
	info, err := os.Stat("../../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxReadme), "bytes of README.md: what is longer belongs into docs")
}

// Every link of every document leads to a file of the repository, to a heading of it, or by https elsewhere.
func TestLinks(t *testing.T) {
	found := linksOf(t, repository)
	require.Greater(t, found.pages, 10)
	require.Greater(t, found.links, 100)
	require.Empty(t, found.broken, strings.Join(found.broken, "\n"))
}

// What is broken is found, in each form that a link can have, and code is not read as links.
func TestBrokenLinksAreFound(t *testing.T) {
	page := "# One `F(x)`: a page\n\n## Twice\n## Twice\n### [Linked](docs/a.md), *so*\n" +
		"[a](docs/a.md) [b](docs/a.md#what-is-it) ![c](docs/c.svg \"title\") [d](docs) [e](#twice-1) [f](#one-fx-a-page) [g](#linked-so)\n" +
		"[h](https://example.org/a_(b)) <https://example.org> [i][ref] [j](docs/a.md#named)\n[ref]: docs/a.md\n" +
		"`[k](none.md)` `x[a](b)`\n```go\n# no heading\ncall[T](none)\n```\n"
	wrong := "[a](none.md) ![b](docs/none.svg) [c](docs/a.md#none) [d](#twice-2) [e](http://example.org) [f](https://localhost)\n" +
		"[g](../outside.md) [h](/README.md) [i][none] <a href=\"gone.md\">j</a> [k](DOCS/a.md) [l](docs/c.svg#part) [m]()\n[n]: gone-too.md\n" +
		"[![image](no.svg)](docs/a.md) [o](#no-heading)\n"
	folder := fstest.MapFS{
		"README.md":        {Data: []byte(page)},
		"docs/a.md":        {Data: []byte("# What *is* it?\r\n<a id=\"named\"></a>[up](../README.md#twice)\r\n")},
		"docs/c.svg":       {},
		"x/testdata/in.md": {Data: []byte("[a](none.md)")},
		"build/made.md":    {Data: []byte("[a](none.md)")},
	}
	found := linksOf(t, folder)
	require.Empty(t, found.broken)
	require.Equal(t, links{pages: 2, links: 13}, found)

	folder["README.md"].Data = []byte(page + wrong)
	require.Equal(t, []string{
		"README.md: #no-heading: no such heading",
		"README.md: #twice-2: no such heading",
		"README.md: ../outside.md: leads out of the repository",
		"README.md: /README.md: a link to a file begins at its page",
		"README.md: : leads nowhere",
		"README.md: DOCS/a.md: no such file",
		"README.md: [i][none]: no such reference",
		"README.md: docs/a.md#none: no such heading",
		"README.md: docs/c.svg#part: only documents have headings",
		"README.md: docs/none.svg: no such file",
		"README.md: gone-too.md: no such file",
		"README.md: gone.md: no such file",
		"README.md: http://example.org: links to other sites are https://host/...",
		"README.md: https://localhost: links to other sites are https://host/...",
		"README.md: no.svg: no such file",
		"README.md: none.md: no such file",
	}, linksOf(t, folder).broken)
}
