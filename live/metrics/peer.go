package metrics

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Every account of a machine reaches its loopback address, so who asks is found in the kernel's
// table of connections, which names the owner of each (proc(5), /proc/net/tcp).

const connections = "/proc/net/tcp"

// owner returns the user whose connection from one address of this machine to another is.
func owner(from, to *net.TCPAddr) (uid int, err error) {
	f, err := os.Open(connections)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	local, remote := inTable(from), inTable(to)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		//  sl  local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid …
		if field := strings.Fields(lines.Text()); len(field) > 7 && field[1] == local &&
			field[2] == remote {
			return strconv.Atoi(field[7])
		}
	}
	return 0, fmt.Errorf("%s has no connection from %v", connections, from)
}

// inTable writes an address as that table does: the four bytes as a number of the machine's, the
// port as it is said.
func inTable(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(a.IP.To4()), a.Port)
}

// ours lets questions of this user and of root through.
func ours(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := net.ResolveTCPAddr("tcp4", r.RemoteAddr)
		if err == nil {
			to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
			var uid int
			if uid, err = owner(from, to); err == nil && uid != 0 && uid != os.Geteuid() {
				err = fmt.Errorf("user %d asks", uid)
			}
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("for user %d and root alone: %v", os.Geteuid(), err),
				http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
