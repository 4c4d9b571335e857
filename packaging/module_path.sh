#!/usr/bin/env bash
# Gives the Go module the path it is published under, so that `go get` finds it:
#
#     packaging/module_path.sh github.com/you/stalloc [CHECKOUT]
#
# Rewrites go.mod, every import, what names packages in comments, docs and the floors' table, and the
# Python package's links.
# Commits nothing. The checkout must be of git, which says what files there are.
set -euo pipefail
new=${1:?no path is named: packaging/module_path.sh github.com/you/stalloc [CHECKOUT]}
cd "${2:-$(dirname "$0")/..}"
case ${new%%/*} in
  *.*) ;;
  *) echo "module_path.sh: $new: go get fetches only paths that begin with a host, such as github.com/you/stalloc" >&2; exit 2 ;;
esac
old=$(go list -m)
[ "$old" != "$new" ] || exit 0
was=$(printf '%s' "$old" | sed 's/[.]/\\&/g')
folders=$(git ls-files '*.go' | sed -n 's#/.*##p' | sort -u | paste -sd '|')
go=$(git ls-files '*.go')
go mod edit -module "$new"
# Imports: each on its own line, maybe after a name.
sed -i -E "s#^(\s*(import )?([A-Za-z_.][A-Za-z_0-9.]* )?)\"$was(/[^\"]*)?\"\$#\1\"$new\4\"#" $go
# Packages that code, comments and docs name.
sed -i -E "s#(^|[^A-Za-z0-9_./-])$was/($folders)([^A-Za-z0-9_-]|\$)#\1$new/\2\3#g" $go $(git ls-files '*.md' '*.h')
sed -i "s#Module: \"$was\"#Module: \"$new\"#" tests/floors/rules.go
sed -i "s#go doc $was\b#go doc $new#" docs/go-api.md
cat >> python/pyproject.toml <<EOT

[project.urls]
Source = "https://$new"
Documentation = "https://$new/docs"
Changelog = "https://$new/CHANGELOG.md"
Issues = "https://$new/issues"
EOT
gofmt -w $go
