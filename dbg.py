import duckdb_adapter.sources.joined_keys as jk
o=jk.JoinedScan.open
def op(self):
    r=o(self); print('   open',self.query.name.split('/')[-1],type(self._rows).__name__,str(r)[:200],[ (x.query.name.split('/')[-1],x._found and list(x._found)) for x in self._others()],self._is_sole); return r
jk.JoinedScan.open=op
import sys; sys.argv=['ex']+sys.argv[1:]
import duckdb,duckdb_adapter
sys.path.insert(0,'/tmp/sqljoin')
from q import Q
duckdb_adapter.install()
con=duckdb.connect()
names=['f','g','prod','days','srv','usr','big','few','few2','orders','items']
L={n:f"'/tmp/sqljoin/{n}.lance'" for n in names}; L['f']="'/tmp/sqljoin/f1.lance'"; L['g']="'/tmp/sqljoin/g1.lance'"
for k in sys.argv[1:]:
    for i in range(4): print(k,len(con.execute(Q[k].format(**L)).fetchall()))
