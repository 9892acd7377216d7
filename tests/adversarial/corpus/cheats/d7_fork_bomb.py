# D7: forks without end
# stopped by: forbidden
import os

while True:
    os.fork()
