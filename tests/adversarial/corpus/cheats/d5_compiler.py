# D5: starts a compiler
# stopped by: forbidden
import subprocess

subprocess.run(["cc", "-shared", "-o", "/tmp/fast.so", "-x", "c", "-"], input=b"int x;", check=True)
